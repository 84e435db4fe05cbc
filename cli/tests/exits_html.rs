//! The page of a report has its plots, as a browser lays it out.

mod browser;

use browser::{View, measured};
use std::path::{Path, PathBuf};
use std::process::Command;

fn recording() -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/capture/tests/data");
    data.join("small-xapic-pp.data.zst")
}

fn page() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", "report", "--format", "html"])
        .arg(recording())
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = page();
    for outside in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.matches("<figure class=\"plot").count() >= 4, "a plot per question");
}

#[test]
fn a_browser_draws_every_plot() {
    let drawn = "[...document.querySelectorAll('figure.plot')].filter(s=>{const \
        b=s.getBoundingClientRect();return b.width>50&&b.height>20&&[...s.querySelectorAll(\
        'i,rect,polyline')].some(e=>e.getBoundingClientRect().width>1)}).length+' of '+\
        document.querySelectorAll('figure.plot').length";
    let Some(title) = measured("drawn", &page(), View::light(1300), drawn) else { return };
    let counts: Vec<usize> = title.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [drawn, all] = counts.as_slice() else { panic!("the browser said {title:?}") };
    assert!(drawn == all && *all >= 4, "{drawn} of {all} plots were drawn");
}

#[test]
fn the_page_fits_every_width_and_no_label_is_cut() {
    // Tables scroll by themselves; anything else that is wider than the window is a fault.
    let cut = "document.documentElement.scrollWidth-innerWidth+' '+[...document\
        .querySelectorAll('.name,.value,.legend li,h1,p')].filter(e=>getComputedStyle(e).overflowX\
        ==='hidden'||e.scrollWidth>e.clientWidth+1&&getComputedStyle(e).display!=='inline').length";
    for width in [375, 800, 1300] {
        let name = format!("width-{width}");
        let Some(title) = measured(&name, &page(), View::light(width), cut) else { return };
        let numbers: Vec<i64> = title.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [wider, cut] = numbers.as_slice() else { panic!("the browser said {title:?}") };
        assert!(*wider <= 0 && *cut == 0, "at {width}: {wider} pixels wider, {cut} labels cut");
    }
}
