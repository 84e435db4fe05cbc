//! The page of `lab run` as a browser lays it out: on a telephone and on a screen, dark, light and
//! on paper. Pictures of it stay in the folder of the tests.

mod browser;
mod lab_made;

use browser::{View, measured, pictured, printed};
use lab::drive::example::{Doing, Example, Examples, Function, Span};
use lab::drive::observed::Observed;
use lab::plan::Setting;
use lab::result::LabResult;
use lab_made::{observed, result, steps};

const WIDTHS: [u32; 2] = [375, 1280];
const COMMAND: &str = "avicenna lab run --format html -o lab.html";

/// A run without the feature takes three exits for each IPI, and one with it none.
fn with_example(mut observed: Observed) -> Observed {
    let span =
        |from_ps, to_ps, doing, what: &str| Span { from_ps, to_ps, doing, what: what.into() };
    let (kvm, hardware, handler) = (Doing::Hypervisor, Doing::Hardware, Doing::Handler);
    let is_on = observed.step.arm.setting == Setting::On;
    let example = Example {
        duration_ps: if is_on { 943_000 } else { 2_265_000 },
        exits: if is_on { 0 } else { 3 },
        sender: match is_on {
            true => vec![span(0, 500_000, hardware, "send")],
            false => vec![span(0, 510_000, kvm, "ICR write")],
        },
        target: match is_on {
            true => vec![
                span(500_000, 720_000, hardware, "deliver"),
                span(720_000, 850_000, handler, "handler"),
            ],
            false => vec![
                span(330_000, 1_140_000, kvm, "host interrupt"),
                span(1_140_000, 1_260_000, handler, "handler"),
                span(1_260_000, 1_840_000, kvm, "EOI"),
            ],
        },
        // Two modes, and one that lies far beyond.
        lengths_ps: (0..400)
            .map(|one| if one % 4 == 0 { 2_600_000 } else { 2_265_000 + one * 100 })
            .map(|ps| if is_on { ps / 2 } else { ps })
            .chain([90_000_000])
            .collect(),
        ..Example::default()
    };
    let mut examples = Examples::from(example);
    let function = |during: &str, name: &str, ps| Function {
        during: during.into(),
        name: name.into(),
        module: Some("kvm".into()),
        ps,
        samples: ps / 1000,
        ..Function::default()
    };
    if !is_on {
        examples.functions = vec![
            function("ICR write", "kvm_irq_delivery_to_apic", 210_000),
            function("EOI", "apic_set_eoi", 90_000),
        ];
    }
    observed.examples = Some(examples);
    observed
}

/// Off, on, and an arm between them, which KVM inhibited or not.
fn page(is_inhibited: bool) -> String {
    let steps = steps().map(with_example).map(|mut one| {
        if let Some(points) = one.result.tracepoints.as_mut().filter(|_| !is_inhibited) {
            points.inhibits.clear();
        }
        one
    });
    html(&result(&steps, "ipi"))
}

fn html(result: &LabResult) -> String {
    result.to_html(COMMAND)
}

#[test]
fn the_page_needs_nothing_but_itself_and_says_where_it_comes_from() {
    let page = page(true);
    for outside in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for part in [
        "A typical IPI of this run",
        "<title>target: host interrupt, 0.33 µs to 1.14 µs</title>",
        "ICR write, 0.00 µs to 0.51 µs\nkvm_irq_delivery_to_apic [kvm] 210 ns</title>",
        "time for each IPI by function, ns",
        "the same as text",
        "VM exits for each IPI",
        "from send to answer and next send",
        "beyond, up to 90.00 µs",
        "when KVM inhibited AVIC",
        COMMAND,
        "kvm_amd.avic=0",
        "trace hash",
    ] {
        assert!(page.contains(part), "{part:?} is missing");
    }
}

#[test]
fn nothing_is_drawn_of_what_was_not_there() {
    let drawn = page(false);
    assert!(!drawn.contains("when KVM inhibited"));
    // A run without times, and nothing at all.
    for observed in [vec![observed(Setting::On)], Vec::new()] {
        let page = html(&result(&observed, "ipi"));
        for part in ["a typical IPI", "from send to answer and next send", "class=\"legend\"></ul>"]
        {
            assert!(!page.contains(part), "{part:?}");
        }
    }
}

#[test]
fn it_fits_both_widths_in_both_lights_and_no_plot_is_empty() {
    // Tables scroll by themselves; anything else that is wider than the window is a fault.
    let looked = "(()=>{const wide=document.documentElement.scrollWidth-innerWidth;\
        const cut=[...document.querySelectorAll('.name,.value,.legend li,h1,h2,h3,p,dd')].filter(e=>\
        e.scrollWidth>e.clientWidth+1&&getComputedStyle(e).display!=='inline').length;\
        const plots=[...document.querySelectorAll('figure.plot')];\
        const drawn=plots.filter(p=>[...p.querySelectorAll('i,rect:not(.free),polyline,circle')]\
        .some(e=>{const b=e.getBoundingClientRect();return b.width>1&&b.height>1}));\
        const labels=[...document.querySelectorAll('text')].filter(e=>e.getBoundingClientRect().width>0&&\
        e.getBoundingClientRect().right>e.parentNode.getBoundingClientRect().right+1).length;\
        const dark=matchMedia('(prefers-color-scheme: dark)').matches?1:0;\
        return [innerWidth,wide,cut,plots.length,drawn.length,labels,dark].join(' ')})()";
    let page = page(true);
    for width in WIDTHS {
        for is_dark in [false, true] {
            let view = View { width, is_dark };
            let name = format!("lab-{width}-{}", if is_dark { "dark" } else { "light" });
            let Some(title) = measured(&name, &page, view, looked) else { return };
            let numbers: Vec<i64> = title.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [inner, wider, cut, plots, drawn, labels, dark] = numbers.as_slice() else {
                panic!("the browser said {title:?}")
            };
            assert_eq!((*inner, *dark), (width.into(), is_dark.into()), "{name}");
            assert!(*wider <= 0 && *cut == 0, "{name}: {wider} pixels wider, {cut} texts cut");
            assert!(plots == drawn && *plots >= 6, "{name}: {drawn} of {plots} plots were drawn");
            assert_eq!(*labels, 0, "{name}: labels of lanes that are cut");
            assert!(pictured(&name, &page, view, 3200).is_some_and(|file| file.exists()));
        }
    }
}

#[test]
fn on_paper_it_keeps_its_plots() {
    let Some(file) = printed("lab", &page(true)) else { return };
    let bytes = std::fs::read(file).expect("a printed page");
    let is_page =
        |part: &[u8]| part.starts_with(b"/Type /Page\n") || part.starts_with(b"/Type /Page ");
    let pages = (0..bytes.len()).filter(|from| is_page(&bytes[*from..])).count();
    assert!((1..=8).contains(&pages), "{pages} pages");
}
