//! KubeVirt's VirtualMachine and its relatives, translated to what KubeVirt, through libvirt, tells
//! QEMU.
//!
//! Source: KubeVirt 1.x `api/core/v1` (schema) and `pkg/virt-launcher/virtwrap/converter`. Left
//! out: instance types and preferences, which live in other objects (a machine that refers to one
//! is marked as incomplete), and the guest's system, which only free text in labels tells.

mod edit;

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::qemu::{Global, Object, Property, QemuSettings, placed};
use crate::configuration::yaml::{self, Node, Value};
use crate::finding::Position;
use crate::position::Lines;
use crate::vm::{Accelerator, Manager, Setting, Unresolved, VmConfiguration};
use edit::Manifests;
use std::ops::Range;

/// Machines of one file.
const MAX_MACHINES: usize = 10_000;

/// All machines of all documents.
pub struct Kubevirt;

impl Dialect for Kubevirt {
    fn kind(&self) -> Kind {
        Kind::Kubevirt
    }

    fn recognizes(&self, text: &str) -> bool {
        text.contains("kubevirt.io/") && text.contains("domain")
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        let documents = yaml::documents(lines)?;
        let mut vms = Vec::new();
        let mut places = Vec::new();
        for (index, document) in documents.iter().enumerate() {
            let mut found = Vec::new();
            find_specifications(document, document, &mut vec![index], &mut found);
            for one in found.into_iter().take(MAX_MACHINES) {
                vms.push(machine(one.object, one.node, file, lines, hints));
                places.push(one.path);
            }
        }
        let text = Manifests { text: lines.text(), documents, places };
        Ok(Contents::machines(Kind::Kubevirt, lines, vms, text))
    }
}

fn machine(
    object: &Node,
    specification: &Node,
    file: &str,
    lines: &Lines<'_>,
    hints: &Hints,
) -> VmConfiguration {
    let mut reader = Reader { lines, settings: QemuSettings::default() };
    reader.specification(specification);
    let refers = ["instancetype", "preference"].into_iter().find_map(|key| {
        let at = object.path(&["spec"])?.entry(key)?.0;
        Some((key, reader.place(at)))
    });
    if let Some((key, at)) = refers {
        let what = format!("the {key} it refers to may decide more");
        reader.settings.is_incomplete = Some(what.clone());
        reader.settings.unresolved.push(Unresolved { at, what });
    }
    let name = object.path(&["metadata", "name"]).and_then(Node::text);
    reader.settings.name = name.map(str::to_owned);
    let span = reader.place(&specification.at);
    let mut vm = reader.settings.resolve(file, span, hints.qemu);
    vm.manager = Manager::KubeVirt;
    vm.accelerator = Setting::by_default(Accelerator::Kvm, "KubeVirt uses KVM");
    vm
}

/// A machine's specification, a mapping with a `domain`.
struct Specification<'n> {
    node: &'n Node,
    /// What it belongs to.
    object: &'n Node,
    /// Which document, and which child at each level.
    path: Vec<usize>,
}

fn find_specifications<'n>(
    node: &'n Node,
    object: &'n Node,
    path: &mut Vec<usize>,
    found: &mut Vec<Specification<'n>>,
) {
    let is_object = node.get("kind").is_some() && node.get("spec").is_some();
    let object = if is_object { node } else { object };
    if let Some(domain) = node.get("domain")
        && matches!(domain.value, Value::Mapping(_))
        && ["devices", "cpu", "features", "machine", "clock", "resources", "memory"]
            .iter()
            .any(|key| domain.get(key).is_some())
    {
        found.push(Specification { node, object, path: path.clone() });
        return;
    }
    for (index, child) in node.children().into_iter().enumerate() {
        path.push(index);
        find_specifications(child, object, path, found);
        path.pop();
    }
}

struct Reader<'t, 'l> {
    lines: &'l Lines<'t>,
    settings: QemuSettings,
}

impl Reader<'_, '_> {
    fn place(&self, at: &Range<usize>) -> Position {
        self.lines.position(at.start, at.end)
    }

    fn feature(&mut self, key: &str, on: bool, at: Position) {
        let value = if on { "on" } else { "off" }.to_owned();
        self.settings.features.push(Property { key: key.to_owned(), value, at });
    }

    fn specification(&mut self, specification: &Node) {
        let Some(domain) = specification.get("domain") else { return };
        let machine = domain.path(&["machine", "type"]);
        let at = machine.map_or_else(|| self.place(&domain.at), |machine| self.place(&machine.at));
        let name = machine.and_then(Node::text).unwrap_or("q35").to_owned();
        self.settings.machine_type = Some(placed(name, at));
        if let Some((at, _)) = domain.path(&["firmware"]).and_then(|f| f.entry("kernelBoot")) {
            self.settings.has_kernel = Some(self.place(at));
        }
        if let Some(cpu) = domain.get("cpu") {
            self.cpu(cpu);
        }
        if let Some(features) = domain.get("features") {
            self.features(features);
        }
        if let Some(clock) = domain.get("clock") {
            self.clock(clock);
        }
        self.devices(domain);
        self.launch_security(domain);
    }

    fn cpu(&mut self, cpu: &Node) {
        let number =
            |key: &str| cpu.get(key).and_then(Node::text).and_then(|n| n.parse::<u32>().ok());
        let (cores, sockets, threads) = (number("cores"), number("sockets"), number("threads"));
        let present = [cores, sockets, threads]
            .into_iter()
            .fold(1u32, |product, level| product.saturating_mul(level.unwrap_or(1).max(1)));
        let topology = &mut self.settings.topology;
        (topology.cores, topology.sockets, topology.threads) = (cores, sockets, threads);
        topology.cpus = Some(present);
        let spare = number("maxSockets")
            .map(|most| (present / sockets.unwrap_or(1).max(1)).saturating_mul(most));
        topology.maxcpus = spare.or(Some(present));
        self.settings.topology_at = Some(self.place(&cpu.at));
        if let Some(model) = cpu.get("model") {
            let name = match model.text().unwrap_or_default() {
                "host-passthrough" | "host-model" => "host",
                name => name,
            };
            self.settings.cpu_model = Some(placed(name.to_owned(), self.place(&model.at)));
        }
        for feature in cpu.get("features").map(Node::children).unwrap_or_default() {
            let Some(name) = feature.get("name").and_then(Node::text) else { continue };
            let policy = feature.get("policy").and_then(Node::text).unwrap_or("require");
            let on = match policy {
                "force" | "require" => true,
                "disable" | "forbid" => false,
                _ => continue,
            };
            self.feature(&name.replace('_', "-"), on, self.place(&feature.at));
        }
    }

    fn features(&mut self, features: &Node) {
        if let Some((at, hidden)) = features.path(&["kvm"]).and_then(|kvm| kvm.entry("hidden")) {
            self.feature("kvm", !hidden.is_true(), self.place(at));
        }
        if let Some((at, passthrough)) = features.entry("hypervPassthrough") {
            let on = passthrough.get("enabled").is_none_or(Node::is_true);
            self.feature("hv-passthrough", on, self.place(at));
        }
        let Some(hyperv) = features.get("hyperv") else { return };
        let Value::Mapping(members) = &hyperv.value else { return };
        for (name, at, value) in members {
            let on = value.get("enabled").is_none_or(Node::is_true);
            let at = self.place(at);
            let name = if name == "synictimer" { "stimer" } else { name.as_str() };
            self.feature(&format!("hv-{name}"), on, at);
            if let Some(direct) = value.get("direct") {
                let on = direct.get("enabled").is_none_or(Node::is_true);
                self.feature(&format!("hv-{name}-direct"), on, at);
            }
        }
    }

    fn clock(&mut self, clock: &Node) {
        if let Some((at, _)) = clock.entry("timezone") {
            self.settings.is_local_time = Some(self.place(at));
        }
        let Some(timer) = clock.get("timer") else { return };
        let Value::Mapping(timers) = &timer.value else { return };
        for (name, at, value) in timers {
            let key = self.place(at);
            let is_absent = value.get("present").is_some_and(|present| !present.is_true());
            match name.as_str() {
                "pit" => {
                    let policy = value.get("tickPolicy");
                    let at = policy.map_or(key, |policy| self.place(&policy.at));
                    let value = policy.and_then(Node::text).unwrap_or("delay").to_owned();
                    let property = Property { key: "lost_tick_policy".into(), value, at };
                    self.settings.globals.push(Global { driver: "kvm-pit".into(), property });
                }
                "hpet" => {
                    let value = if is_absent { "off" } else { "on" }.to_owned();
                    self.settings.machine.push(Property { key: "hpet".into(), value, at: key });
                }
                "hyperv" => self.feature("hv-time", !is_absent, key),
                _ => {}
            }
        }
    }

    fn devices(&mut self, domain: &Node) {
        let Some(devices) = domain.get("devices") else { return };
        for key in ["hostDevices", "gpus"] {
            for device in devices.get(key).map(Node::children).unwrap_or_default() {
                let at = self.place(&device.at);
                let kind = "vfio-pci".to_owned();
                self.settings.devices.push(Object { kind, at, properties: Vec::new() });
            }
        }
        for interface in devices.get("interfaces").map(Node::children).unwrap_or_default() {
            if let Some((at, _)) = interface.entry("sriov") {
                let at = self.place(at);
                let kind = "vfio-pci".to_owned();
                self.settings.devices.push(Object { kind, at, properties: Vec::new() });
            }
        }
    }

    fn launch_security(&mut self, domain: &Node) {
        let Some(security) = domain.get("launchSecurity") else { return };
        let kinds = [("sev", "sev-guest"), ("snp", "sev-snp-guest"), ("tdx", "tdx-guest")];
        let Some((at, kind, value)) = kinds.into_iter().find_map(|(key, kind)| {
            security.entry(key).map(|(at, value)| (at.clone(), kind, value))
        }) else {
            return;
        };
        let at = self.place(&at);
        let is_encrypted = value.path(&["policy", "encryptedState"]).is_some_and(Node::is_true);
        let policy = if is_encrypted { "5" } else { "1" };
        let property =
            |key: &str, value: &str| Property { key: key.into(), value: value.into(), at };
        let properties = vec![property("id", "lsec0"), property("policy", policy)];
        self.settings.objects.push(Object { kind: kind.to_owned(), at, properties });
        self.settings.machine.push(property("confidential-guest-support", "lsec0"));
    }
}
