//! What people call a machine: by the name they gave it, and by the names that its manager did.

use reading::RunningVm;

/// Every name of a machine, the one to show first: its own, the process, Proxmox's VMID, the UUID
/// (nova's instance has libvirt's), libvirt's number, nova's name, KubeVirt's object and pod, the
/// systemd scope.
pub fn names(vm: &RunningVm) -> Vec<String> {
    let mut names: Vec<String> = vm.name.iter().cloned().collect();
    names.push(vm.pid.to_string());
    let after = |option: &str| {
        let at = vm.arguments.iter().position(|word| word.trim_start_matches('-') == option)?;
        vm.arguments.get(at + 1).map(String::as_str)
    };
    let is_proxmox = vm.arguments.iter().any(|word| word.contains("/qemu-server/"));
    if let Some(id) = after("id").filter(|_| is_proxmox) {
        names.extend([id.to_owned(), format!("vm-{id}"), format!("{id}.scope")]);
    }
    if let Some(uuid) = after("uuid") {
        names.push(uuid.to_ascii_lowercase());
        names.push(uuid.replace('-', "").to_ascii_lowercase());
    }
    if let Some(id) = vm.xml.as_ref().and_then(|xml| domain_id(&xml.text)) {
        names.push(id.to_owned());
        if let Some(name) = &vm.name {
            // As machinectl has it, and systemd's unit of it.
            names.push(format!("qemu-{id}-{name}"));
            names.push(format!("machine-qemu\\x2d{id}\\x2d{}.scope", name.replace('-', "\\x2d")));
        }
    }
    let nova = vm.xml.as_ref().and_then(|xml| {
        let (_, rest) = xml.text.split_once("<nova:name>")?;
        rest.split_once("</nova:name>")
    });
    names.extend(nova.map(|(name, _)| name.trim().to_owned()));
    // KubeVirt calls its domains NAMESPACE_NAME; the pod is virt-launcher-NAME and five characters.
    if let Some((namespace, name)) = vm.name.as_deref().and_then(|name| name.split_once('_')) {
        names.extend([format!("{namespace}/{name}"), name.to_owned()]);
    }
    names
}

/// Whether a machine goes by this name.
pub fn is_called(vm: &RunningVm, wanted: &str) -> bool {
    let is_pod = |name: &str| {
        let of_pod = wanted.strip_prefix("virt-launcher-").and_then(|rest| rest.rsplit_once('-'));
        of_pod.is_some_and(|(own, _)| vm.name.as_deref().is_some_and(|_| own == name))
    };
    names(vm).iter().any(|name| name.eq_ignore_ascii_case(wanted) || is_pod(name))
}

/// The number of `<domain … id='3'>`.
fn domain_id(xml: &str) -> Option<&str> {
    let tag = &xml[xml.find("<domain ")?..];
    let tag = &tag[..tag.find('>')?];
    let value = &tag[tag.find(" id=")? + 4..];
    let quote = value.chars().next()?;
    value[1..].split(quote).next().filter(|id| id.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reading::{ConfigurationFile, Fact};

    fn vm(name: &str, words: &str, xml: Option<&str>) -> RunningVm {
        RunningVm {
            pid: 4711,
            name: Some(name.into()),
            arguments: words.split(' ').map(String::from).collect(),
            xml: xml.map(|text| ConfigurationFile { path: "/run/a.xml".into(), text: text.into() }),
            statistics: Fact::absent("debugfs"),
            functions: Fact::absent("vfio"),
        }
    }

    #[test]
    fn machines_go_by_the_names_that_people_have() {
        const UUID: &str = "C7A5FDBD-EDAF-9455-926A-D65C16DB1809";
        let proxmox =
            vm("web", "kvm -id 101 -name web -pidfile /var/run/qemu-server/101.pid", None);
        let status = "<domstatus pid='4711'>\n<domain type='kvm' id='3'>\n<name>my-web</name><metadata>\
                      <nova:name>shop 1</nova:name></metadata></domain></domstatus>";
        let libvirt = vm("my-web", &format!("qemu-kvm -uuid {UUID}"), Some(status));
        let pod = vm("default_testvm", "qemu-kvm -m 1G", None);
        for (machine, called) in [
            (&proxmox, vec!["web", "101", "4711", "vm-101"]),
            (
                &libvirt,
                vec![
                    "my-web",
                    "3",
                    "c7a5fdbd-edaf-9455-926a-d65c16db1809",
                    UUID,
                    "machine-qemu\\x2d3\\x2dmy\\x2dweb.scope",
                    "qemu-3-my-web",
                    "shop 1",
                ],
            ),
            (&pod, vec!["testvm", "default/testvm", "virt-launcher-testvm-x7k2p"]),
        ] {
            for name in called {
                assert!(is_called(machine, name), "{name} of {:?}", names(machine));
            }
        }
        assert!(
            !is_called(&libvirt, "101") && !is_called(&proxmox, "3") && !is_called(&proxmox, "we")
        );
    }
}
