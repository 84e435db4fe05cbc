//! The frame and the style of every page: `exits report`, `exits compare` and `lab`.
//!
//! A page needs nothing but itself: no script, no font, no network. Text keeps its size at every
//! width, and only shapes stretch, so that a page reads the same on a telephone, beside a terminal
//! and in print, light or dark as the reader has it.

use crate::grid::escaped;

/// The first of two settings that are compared. Neither colour says good or bad.
pub const BEFORE: &str = "var(--before)";
/// The second of them.
pub const AFTER: &str = "var(--after)";
/// What hardware could avoid.
pub const AVOIDABLE: &str = "var(--avoidable)";
/// What it could not.
pub const NOT_AVOIDABLE: &str = "var(--rest)";
/// What nobody knows.
pub const UNKNOWN: &str = "var(--unknown)";
/// Where the guest waits.
pub const IDLE: &str = "var(--idle)";
/// What is wrong.
pub const ALARM: &str = "var(--alarm)";

/// Colours are told apart by the colour-blind (after Okabe and Ito) and differ in lightness.
const COLOURS: &str = "\
:root{color-scheme:light dark;--before:#c77700;--after:#0063b1;--avoidable:#00856a;--rest:#6b7683;\
--unknown:#a8559b;--idle:#aab1b9;--alarm:#c8480b;--dim:#5d6670;--line:#8885;--free:#8882;\
--s0:#0072b2;--s1:#c77700;--s2:#00856a;--s3:#c8480b;--s4:#2f9bd8;--s5:#a8559b;--s6:#6b7683;\
--s7:#8a7d00}\
@media(prefers-color-scheme:dark){:root{--before:#f0a43a;--after:#5fb2ff;--avoidable:#35c9a1;\
--rest:#98a3b0;--unknown:#dd8fd0;--idle:#5c646d;--alarm:#ff8a4d;--dim:#a2abb5;--s0:#5fb2ff;\
--s1:#f0a43a;--s2:#35c9a1;--s3:#ff8a4d;--s4:#9bd3ff;--s5:#dd8fd0;--s6:#98a3b0;--s7:#e5d84d}}";

const TEXT: &str = "\
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}\
body{font:15px/1.45 system-ui,sans-serif;max-width:72rem;margin:1.5rem auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:0 0 .3rem;overflow-wrap:anywhere}\
h2{font-size:1.15rem;margin:1.8rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .4rem}\
p{max-width:54rem}p.facts{color:var(--dim);white-space:pre-line;margin:.2rem 0 1rem;\
overflow-wrap:anywhere}\
p.warning{border-left:4px solid var(--alarm);padding:.2rem .8rem}\
p.answer{font-size:1.2rem;font-weight:600;margin:.6rem 0;white-space:pre-line}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;margin:.4rem 0 1rem}\
th,td{padding:.15rem .6rem;border-bottom:1px solid var(--line);text-align:left;\
vertical-align:top}th{font-weight:600}\
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
th:first-child,td:first-child{position:sticky;left:0;background:Canvas}";

/// Rows of a name, a shape and a value; on a narrow page the name stands above.
const PLOTS: &str = "\
figure.plot{margin:.4rem 0 1rem;font-size:13px}\
.rows{display:grid;grid-template-columns:fit-content(20rem) minmax(6rem,1fr) max-content;\
gap:.3rem .7rem;align-items:center;max-width:62rem}\
.rows>.name{text-align:right;overflow-wrap:anywhere}.name small{display:block;color:var(--dim)}\
.rows>.value{font-variant-numeric:tabular-nums;white-space:nowrap}\
.rows>.axis{grid-column:2}.rows>.beside{grid-column:1/-1;color:var(--dim)}\
.track i{display:block;height:1rem;min-width:1px}.track.pair i{height:.6rem;margin:1px 0}\
.value.pair{line-height:1.2;font-size:12px}\
.track>svg,.area>svg{display:block;width:100%;height:2.6rem}.track.flat>svg{height:1rem}\
.area{display:grid;grid-template-columns:max-content 1fr;column-gap:.5rem;max-width:62rem}\
.area>svg{height:12rem}.area .y{display:flex;flex-direction:column;justify-content:space-between;\
height:calc(12rem + 1.4em);margin:-.7em 0;line-height:1.4em;text-align:right}\
.rows.lanes{grid-template-columns:max-content minmax(6rem,1fr);margin-top:.2rem}\
.track.lane>svg{height:1.4rem}\
.track.dots>svg{height:58px;overflow:visible}\
.area .dots,.area .whose{grid-column:2}.area .whose{margin-top:.5rem}\
svg text{font:12px system-ui,sans-serif;fill:Canvas}\
.axis{display:flex;justify-content:space-between;color:var(--dim);font-size:12px}\
.axis.cells{display:grid;overflow:hidden}.area .axis{grid-column:2}\
svg line{stroke:var(--line);vector-effect:non-scaling-stroke}\
svg polyline{fill:none;stroke-width:1.5;vector-effect:non-scaling-stroke}\
svg rect.free{fill:var(--free)}\
.stack{display:flex;height:1.4rem;max-width:62rem}.stack i{display:block;min-width:1px}\
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0;margin:.4rem 0}\
details{margin:.3rem 0 1rem}summary{cursor:pointer;color:var(--dim)}\
pre.lanes{font-size:12px;overflow-x:auto}dl.facts{display:grid;\
grid-template-columns:max-content 1fr;gap:.1rem .8rem;color:var(--dim);max-width:54rem}\
dl.facts dt{font-weight:600}dl.facts dd{margin:0;overflow-wrap:anywhere}\
.legend b{display:inline-block;width:.8em;height:.8em;margin-right:.4em}\
@media(max-width:44rem){.rows{grid-template-columns:1fr max-content;gap:.1rem .6rem}\
.rows>.name{grid-column:1/-1;text-align:left;margin-top:.4rem}.rows>.axis{grid-column:1}\
.name small{display:inline;margin-left:.5em}.rows.lanes{grid-template-columns:1fr}\
svg text.wide{display:none}}";

/// A whole page around a body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta \
         name=\"viewport\" content=\"width=device-width\"><meta name=\"generator\" \
         content=\"avicenna {}\"><title>{}</title><style>{COLOURS}{TEXT}{PLOTS}</style></head>\
         <body>\n{body}</body></html>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(title)
    )
}

/// What the two colours of a comparison stand for.
pub fn legend(before: &str, after: &str) -> String {
    crate::plot::legend(&[(before.to_owned(), BEFORE), (after.to_owned(), AFTER)])
}
