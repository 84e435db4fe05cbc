//! Links the program as a Multiboot image: the runtime's layout, nothing of the host's C library.
use std::path::Path;

fn main() {
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the guest workspace");
    let layout = guest.join("runtime/image.ld");
    println!("cargo::rerun-if-changed={}", layout.display());
    let script = format!("-Wl,-T,{}", layout.display());
    let arguments = ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-fuse-ld=bfd", &script]
        .into_iter()
        .chain(["-Wl,-z,max-page-size=0x1000", "-Wl,-z,noexecstack", "-Wl,--build-id=none"])
        .chain(["-Wl,--no-warn-rwx-segments"]);
    for argument in arguments {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
