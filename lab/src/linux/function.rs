//! Functions of the host on their way to a guest: what drives them.

use anyhow::Context;
use std::path::Path;

const DRIVER: &str = "vfio-pci";
const DEVICES: &str = "/sys/bus/pci/devices";

/// Has vfio-pci drive the function at `address` in place of any other driver.
pub(crate) fn bind(address: &str) -> anyhow::Result<()> {
    let function = Path::new(DEVICES).join(address);
    anyhow::ensure!(function.exists(), "the host has no function {address}");
    let driver = function.join("driver");
    let current = || std::fs::read_link(&driver).ok()?.file_name().map(|name| name.to_owned());
    if current().is_some_and(|name| name == DRIVER) {
        return Ok(());
    }
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    if driver.exists() {
        write(&driver.join("unbind"), address)?;
    }
    write(&function.join("driver_override"), DRIVER)?;
    write(Path::new("/sys/bus/pci/drivers_probe"), address)?;
    anyhow::ensure!(
        driver.exists(),
        "{DRIVER} does not take {address}: without an IOMMU that translates there is no vfio"
    );
    Ok(())
}

/// The network interface of a function.
pub(crate) fn interface(address: &str) -> anyhow::Result<String> {
    let folder = Path::new(DEVICES).join(address).join("net");
    let mut names = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let name = names.next().with_context(|| format!("{address} is not a network interface"))?;
    Ok(name.file_name().to_string_lossy().into_owned())
}
