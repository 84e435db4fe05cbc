//! The answer for readers: text, Markdown for a ticket, and one self-contained page.

mod html;
mod tables;
mod text;

pub use html::html;
pub use text::{markdown, text};
