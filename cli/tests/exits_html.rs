//! The page of a report has its plots, as a browser lays it out.

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

fn browser() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = page();
    for outside in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.matches("<figure class=\"plot").count() >= 4, "a plot per question");
}

/// What an expression is on the page in a window of so many pixels; `None` without a browser.
fn measured(name: &str, width: u32, expression: &str) -> Option<String> {
    let Some(browser) = browser() else {
        println!("NOTICE: no chromium here, the page was not opened in a browser");
        return None;
    };
    // A copy with a script that measures what was laid out and says so in the title.
    let script = format!("<script>document.title='measured '+({expression})</script></body>");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("page-{name}-{}.html", std::process::id()));
    std::fs::write(&path, page().replace("</body>", &script)).expect("the folder is writable");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--window-size={width},1000"))
        .arg(format!("--user-data-dir={}", folder.join(format!("browser-{name}")).display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("the browser runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let title = dom.split("<title>measured ").nth(1).and_then(|rest| rest.split("</title>").next());
    Some(title.unwrap_or_default().to_owned())
}

#[test]
fn a_browser_draws_every_plot() {
    let drawn = "[...document.querySelectorAll('figure.plot')].filter(s=>{const \
        b=s.getBoundingClientRect();return b.width>50&&b.height>20&&[...s.querySelectorAll(\
        'i,rect,polyline')].some(e=>e.getBoundingClientRect().width>1)}).length+' of '+\
        document.querySelectorAll('figure.plot').length";
    let Some(title) = measured("drawn", 1300, drawn) else { return };
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
    for width in [400, 800, 1300] {
        let Some(title) = measured(&format!("width-{width}"), width, cut) else { return };
        let numbers: Vec<i64> = title.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [wider, cut] = numbers.as_slice() else { panic!("the browser said {title:?}") };
        assert!(*wider <= 0 && *cut == 0, "at {width}: {wider} pixels wider, {cut} labels cut");
    }
}
