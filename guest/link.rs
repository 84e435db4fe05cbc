//! Links a guest as a Multiboot image: the runtime's layout, nothing of the host's C library.
//! Included by the build script of each guest.

use std::path::Path;

/// Prints the linker's arguments for the package in `manifest`.
pub fn as_image(manifest: &str) {
    let guest = Path::new(manifest).parent().expect("a folder of the guests' workspace");
    let layout = guest.join("runtime/image.ld");
    println!("cargo::rerun-if-changed={}", layout.display());
    println!("cargo::rerun-if-changed={}", guest.join("link.rs").display());
    let script = format!("-Wl,-T,{}", layout.display());
    let arguments = ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-fuse-ld=bfd", &script]
        .into_iter()
        .chain(["-Wl,-z,max-page-size=0x1000", "-Wl,-z,noexecstack", "-Wl,--build-id=none"])
        .chain(["-Wl,--no-warn-rwx-segments"]);
    for argument in arguments {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
