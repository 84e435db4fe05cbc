//! Links the program as a Multiboot image, and says where the guest to build in is: the variable
//! GUEST_PAYLOAD, which the build of all images sets. Without it none is built in.

#[path = "../link.rs"]
mod link;

use std::path::{Path, PathBuf};

fn main() {
    link::as_image(env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-env-changed=GUEST_PAYLOAD");
    let payload = std::env::var_os("GUEST_PAYLOAD").map(PathBuf::from).unwrap_or_else(|| {
        let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        let empty = Path::new(&out).join("no-payload");
        std::fs::write(&empty, []).expect("a writable OUT_DIR");
        empty
    });
    println!("cargo::rerun-if-changed={}", payload.display());
    println!("cargo::rustc-env=PAYLOAD={}", payload.display());
}
