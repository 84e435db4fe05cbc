//! A page as a browser lays it out.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Of the window, in pixels.
    pub width: u32,
    /// As the reader has it.
    pub is_dark: bool,
}

impl View {
    /// Light.
    pub const fn light(width: u32) -> Self {
        Self { width, is_dark: false }
    }
}

fn program() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there);
    if found.is_none() {
        println!("NOTICE: no chromium here, the page was not opened in a browser");
    }
    found
}

/// What an expression is on a page; `None` without a browser.
pub fn measured(name: &str, page: &str, view: View, expression: &str) -> Option<String> {
    let script = format!(
        "onload=()=>document.title='measured '+frames[0].eval({})",
        serde_json::to_string(expression).expect("text")
    );
    let framed = framed(page, view.width, &format!("<script>{script}</script>"));
    let dom = run(name, &framed, view, &["--dump-dom".to_owned()])?;
    let title = dom.split("<title>measured ").nth(1).and_then(|rest| rest.split("</title>").next());
    Some(title.unwrap_or_default().to_owned())
}

/// The file that a page is printed to; `None` without a browser.
#[allow(dead_code, reason = "not every page is printed")]
pub fn printed(name: &str, page: &str) -> Option<PathBuf> {
    let file = folder().join(format!("{name}.pdf"));
    run(name, page, View::light(1280), &[format!("--print-to-pdf={}", file.display())])?;
    Some(file)
}

/// The file with a picture of a page's first `height` pixels; `None` without a browser.
#[allow(dead_code, reason = "not every page is pictured")]
pub fn pictured(name: &str, page: &str, view: View, height: u32) -> Option<PathBuf> {
    let file = folder().join(format!("{name}.png"));
    let size = format!("--window-size={},{height}", view.width.max(LEAST_WIDTH));
    let options = [format!("--screenshot={}", file.display()), size];
    run(name, &framed(page, view.width, ""), view, &options)?;
    Some(file)
}

/// Of a window without a head: a narrower one is as wide.
const LEAST_WIDTH: u32 = 500;

/// A page in a frame, which may be narrower than a window can be.
fn framed(page: &str, width: u32, script: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><html style=\"color-scheme:light dark\"><head><title>a frame</title></head>\
         <body style=\"margin:0\"><iframe style=\"border:0;width:{width}px;height:100vh\" \
         srcdoc=\"{page}\"></iframe>{script}</body></html>"
    )
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn run(name: &str, page: &str, view: View, options: &[String]) -> Option<String> {
    let program = program()?;
    let path = folder().join(format!("page-{name}-{}.html", std::process::id()));
    std::fs::write(&path, page).expect("the folder is writable");
    let scheme = if view.is_dark { 0 } else { 1 };
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--window-size={},1000", view.width.max(LEAST_WIDTH)))
        .arg(format!("--user-data-dir={}", folder().join(format!("browser-{name}")).display()))
        .args(options)
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("the browser runs");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
