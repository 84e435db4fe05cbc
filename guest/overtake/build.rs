//! Links the program as a Multiboot image.

#[path = "../link.rs"]
mod link;

fn main() {
    link::as_image(env!("CARGO_MANIFEST_DIR"));
}
