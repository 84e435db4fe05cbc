//! libvirt domain XML, translated to what libvirt tells QEMU.
//!
//! Sources: libvirt 8.10 to 11.3, `formatdomain` and `src/qemu/qemu_command.c`, `qemu_domain.c`.
//! Left out: elements without influence on interrupts, and `<qemu:override>`.

mod document;
mod edit;

use super::{Contents, Dialect};
use crate::configuration::input::{Hints, InputError, Kind};
use crate::configuration::qemu::{Global, Object, Property, QemuSettings, placed};
use crate::configuration::qemu_arguments::additional_settings;
use crate::configuration::qemu_machine;
use crate::configuration::shell::Word;
use crate::finding::Position;
use crate::position::Lines;
use crate::vm::{Guest, MachineFamily, Manager, Pit, Setting, Unresolved, VmConfiguration};
use document::{attribute, child, documents, domains, path};
use edit::Domains;
use roxmltree::{Attribute, Node};

/// More vCPUs than this make libvirt 11.0 and newer add an IOMMU [qemu_domain.c].
const MAX_CPUS_WITHOUT_EIM: u32 = 255;

/// Domains alone, in a list, inside a status or snapshot file.
pub struct LibvirtXml;

impl Dialect for LibvirtXml {
    fn kind(&self) -> Kind {
        Kind::LibvirtXml
    }

    fn recognizes(&self, text: &str) -> bool {
        text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
    }

    fn read<'t>(
        &self,
        file: &str,
        lines: &Lines<'t>,
        hints: &Hints,
    ) -> Result<Contents<'t>, InputError> {
        let parts = documents(lines)?;
        let mut vms = Vec::new();
        let mut places = Vec::new();
        // An <inactiveDomain> beside a snapshot's domain is the same machine's other configuration.
        for (index, part) in parts.iter().enumerate() {
            for domain in domains(&part.document) {
                vms.push(machine(domain, part.start, file, lines, hints));
                places.push((index, domain.id()));
            }
        }
        let text = Domains { text: lines.text(), parts, places };
        Ok(Contents::machines(Kind::LibvirtXml, lines, vms, text))
    }
}

fn machine(
    domain: Node<'_, '_>,
    start: usize,
    file: &str,
    lines: &Lines<'_>,
    hints: &Hints,
) -> VmConfiguration {
    let reader = Reader { domain, start, lines };
    let settings = reader.settings();
    let range = domain.range();
    let span = reader.position(range.start, range.end);
    let mut vm = settings.resolve(file, span, hints.qemu);
    vm.manager = Manager::Libvirt;
    reader.absent_pit(&mut vm);
    vm
}

fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

struct Reader<'a, 'i, 'l> {
    domain: Node<'a, 'i>,
    /// Where the document starts in the input.
    start: usize,
    lines: &'l Lines<'i>,
}

impl<'a, 'i> Reader<'a, 'i, '_> {
    /// The position of offsets of this document.
    fn position(&self, start: usize, end: usize) -> Position {
        self.lines.position(self.start + start, self.start + end)
    }

    fn source(&self, range: std::ops::Range<usize>) -> &'i str {
        self.lines.text().get(self.start + range.start..self.start + range.end).unwrap_or_default()
    }

    /// The start tag of an element.
    fn place(&self, node: Node<'_, '_>) -> Position {
        let range = node.range();
        let text = self.source(range.clone());
        let tag = text.find('>').map_or(text.len(), |end| end + 1);
        self.position(range.start, range.start + tag)
    }

    fn place_of(&self, attribute: &Attribute<'_, '_>) -> Position {
        let range = attribute.range();
        self.position(range.start, range.end)
    }

    fn property(&self, key: &str, value: &str, at: Position) -> Property {
        Property { key: key.to_owned(), value: value.to_owned(), at }
    }

    fn settings(&self) -> QemuSettings {
        let mut settings = QemuSettings::default();
        let text = |name| child(self.domain, name).and_then(|node| node.text());
        settings.name = text("name").map(|name| name.trim().to_owned());
        self.accelerator(&mut settings);
        self.os(&mut settings);
        self.features(&mut settings);
        self.cpu(&mut settings);
        self.vcpus(&mut settings);
        self.clock(&mut settings);
        self.devices(&mut settings);
        self.launch_security(&mut settings);
        self.add_iommu(&mut settings);
        self.guest(&mut settings);
        self.command_line(settings)
    }

    fn accelerator(&self, settings: &mut QemuSettings) {
        let Some(kind) = attribute(self.domain, "type") else { return };
        let name = match kind.value() {
            "qemu" => "tcg",
            "kvm" => "kvm",
            "hvf" => "hvf",
            _ => "xen",
        };
        settings.accelerator = Some(placed(name.to_owned(), self.place_of(&kind)));
    }

    fn os(&self, settings: &mut QemuSettings) {
        let Some(os) = child(self.domain, "os") else { return };
        if let Some(kind) = child(os, "type") {
            if let Some(machine) = attribute(kind, "machine") {
                let at = self.place_of(&machine);
                settings.machine_type = Some(placed(machine.value().to_owned(), at));
            }
            if let Some(arch) = attribute(kind, "arch") {
                let name = format!("qemu-system-{}", arch.value().replace("i686", "i386"));
                settings.program = Some(placed(name, self.place_of(&arch)));
            }
        }
        settings.has_kernel = child(os, "kernel").map(|kernel| self.place(kernel));
    }

    fn features(&self, settings: &mut QemuSettings) {
        let Some(features) = child(self.domain, "features") else { return };
        if let Some(driver) = path(features, &["ioapic"]).and_then(|node| attribute(node, "driver"))
        {
            let value = if driver.value() == "qemu" { "split" } else { "on" };
            let at = self.place_of(&driver);
            settings.machine.push(self.property("kernel-irqchip", value, at));
        }
        if let Some(hidden) = path(features, &["kvm", "hidden"])
            && let Some(state) = attribute(hidden, "state")
        {
            let shows = if state.value() == "on" { "off" } else { "on" };
            settings.features.push(self.property("kvm", shows, self.place(hidden)));
        }
        if let Some(hyperv) = child(features, "hyperv") {
            self.hyperv(settings, hyperv);
        }
    }

    fn hyperv(&self, settings: &mut QemuSettings, hyperv: Node<'a, 'i>) {
        if let Some(mode) = attribute(hyperv, "mode").filter(|mode| mode.value() != "custom") {
            let at = self.place_of(&mode);
            settings.features.push(self.property("hv-passthrough", "on", at));
        }
        for element in elements(hyperv) {
            let Some(state) = attribute(element, "state") else { continue };
            let name = match element.tag_name().name() {
                "vendor_id" => "hv-vendor-id".to_owned(),
                name => format!("hv-{}", name.replace('_', "-")),
            };
            let at = self.place(element);
            settings.features.push(self.property(&name, state.value(), at));
            if let Some(direct) = child(element, "direct")
                && let Some(state) = attribute(direct, "state")
            {
                let name = format!("{name}-direct");
                let at = self.place(direct);
                settings.features.push(self.property(&name, state.value(), at));
            }
        }
    }

    fn cpu(&self, settings: &mut QemuSettings) {
        let Some(cpu) = child(self.domain, "cpu") else { return };
        let mode = attribute(cpu, "mode");
        let model = match mode.as_ref().map(|mode| mode.value()) {
            Some("host-passthrough") => Some("host".to_owned()),
            Some("maximum") => Some("max".to_owned()),
            // The named model next to the host's, with the host's features: SVM and VMX among them.
            Some("host-model") => Some("host".to_owned()),
            _ => child(cpu, "model").and_then(|model| model.text()).map(|m| m.trim().to_owned()),
        };
        if let Some(model) = model {
            settings.cpu_model = Some(placed(model, self.place(cpu)));
        }
        for feature in elements(cpu).filter(|node| node.has_tag_name("feature")) {
            let (Some(name), Some(policy)) =
                (attribute(feature, "name"), attribute(feature, "policy"))
            else {
                continue;
            };
            let value = match policy.value() {
                "force" | "require" => "on",
                "disable" | "forbid" => "off",
                _ => continue,
            };
            let name = name.value().replace('_', "-");
            settings.features.push(self.property(&name, value, self.place(feature)));
        }
        if let Some(topology) = child(cpu, "topology") {
            let level =
                |name| attribute(topology, name).and_then(|level| level.value().parse().ok());
            settings.topology.sockets = level("sockets");
            settings.topology.dies = level("dies");
            settings.topology.modules = level("clusters");
            settings.topology.cores = level("cores");
            settings.topology.threads = level("threads");
            settings.topology_at = Some(self.place(topology));
        }
    }

    fn vcpus(&self, settings: &mut QemuSettings) {
        let Some(vcpu) = child(self.domain, "vcpu") else { return };
        let count: Option<u32> = vcpu.text().and_then(|text| text.trim().parse().ok());
        let current = attribute(vcpu, "current").and_then(|current| current.value().parse().ok());
        settings.topology.maxcpus = count;
        settings.topology.cpus = current.or(count);
        settings.topology_at = Some(self.place(vcpu));
    }

    fn clock(&self, settings: &mut QemuSettings) {
        let Some(clock) = child(self.domain, "clock") else { return };
        if let Some(offset) =
            attribute(clock, "offset").filter(|offset| offset.value() == "localtime")
        {
            settings.is_local_time = Some(self.place_of(&offset));
        }
        for timer in elements(clock).filter(|node| node.has_tag_name("timer")) {
            let Some(name) = attribute(timer, "name") else { continue };
            let present = attribute(timer, "present");
            let present = present.as_ref().map(|present| present.value());
            let at = self.place(timer);
            match (name.value(), present) {
                ("pit", _) => {
                    let policy = attribute(timer, "tickpolicy");
                    let policy = policy.as_ref().map_or("delay", |policy| policy.value());
                    // libvirt leaves "catchup" to KVM, whose reinjection is that.
                    let policy = if policy == "catchup" { "delay" } else { policy };
                    let property = self.property("lost_tick_policy", policy, at);
                    settings.globals.push(Global { driver: "kvm-pit".to_owned(), property });
                }
                ("hpet", Some("no")) => settings.machine.push(self.property("hpet", "off", at)),
                ("hpet", Some("yes")) => settings.machine.push(self.property("hpet", "on", at)),
                ("hypervclock", Some("yes") | None) => {
                    settings.features.push(self.property("hv-time", "on", at));
                }
                _ => {}
            }
        }
    }

    /// libvirt's code and its documentation do not agree on what an absent PIT does.
    fn absent_pit(&self, vm: &mut VmConfiguration) {
        let Some(clock) = child(self.domain, "clock") else { return };
        let absent = elements(clock).find(|timer| {
            let is = |name, value| attribute(*timer, name).is_some_and(|a| a.value() == value);
            timer.has_tag_name("timer") && is("name", "pit") && is("present", "no")
        });
        if let Some(timer) = absent.filter(|_| vm.pit.value == Pit::KernelReinject) {
            let what = "whether present='no' removes the PIT depends on libvirt's version";
            vm.unresolved.push(Unresolved { at: self.place(timer), what: what.to_owned() });
            vm.pit = Setting::unknown(Pit::Unknown, what);
        }
    }

    fn devices(&self, settings: &mut QemuSettings) {
        let Some(devices) = child(self.domain, "devices") else { return };
        for device in elements(devices) {
            match device.tag_name().name() {
                "iommu" => settings.devices.extend(self.iommu(device)),
                "hostdev"
                    if attribute(device, "type").is_some_and(|kind| kind.value() == "pci") =>
                {
                    let kind = "vfio-pci".to_owned();
                    let at = self.place(device);
                    settings.devices.push(Object { kind, at, properties: Vec::new() });
                }
                "interface"
                    if attribute(device, "type").is_some_and(|kind| kind.value() == "hostdev") =>
                {
                    let kind = "vfio-pci".to_owned();
                    let at = self.place(device);
                    settings.devices.push(Object { kind, at, properties: Vec::new() });
                }
                _ => {}
            }
        }
    }

    fn iommu(&self, iommu: Node<'a, 'i>) -> Option<Object> {
        let kind = match attribute(iommu, "model")?.value() {
            "intel" => "intel-iommu",
            "amd" => "amd-iommu",
            "virtio" => "virtio-iommu-pci",
            _ => return None,
        };
        let mut properties = Vec::new();
        if let Some(driver) = child(iommu, "driver") {
            for attribute in driver.attributes() {
                let at = self.place_of(&attribute);
                properties.push(self.property(attribute.name(), attribute.value(), at));
            }
        }
        Some(Object { kind: kind.to_owned(), at: self.place(iommu), properties })
    }

    fn launch_security(&self, settings: &mut QemuSettings) {
        let Some(security) = child(self.domain, "launchSecurity") else { return };
        let Some(kind) = attribute(security, "type") else { return };
        let object = match kind.value() {
            "sev" => "sev-guest",
            "sev-snp" => "sev-snp-guest",
            "tdx" => "tdx-guest",
            _ => return,
        };
        let at = self.place(security);
        let mut properties = vec![self.property("id", "lsec0", at)];
        if let Some(policy) = child(security, "policy").and_then(|policy| policy.text()) {
            properties.push(self.property("policy", policy.trim(), at));
        }
        settings.objects.push(Object { kind: object.to_owned(), at, properties });
        settings.machine.push(self.property("confidential-guest-support", "lsec0", at));
    }

    /// What libvirt 11.0 and newer add for many vCPUs; older ones refuse such a domain.
    fn add_iommu(&self, settings: &mut QemuSettings) {
        let cpus = settings.topology.resolve().possible;
        let is_q35 = settings.machine_type.as_ref().is_some_and(|machine| {
            qemu_machine::machine(&machine.value).family == MachineFamily::Q35
        });
        let is_kvm = settings.accelerator.as_ref().is_some_and(|name| name.value == "kvm");
        let is_other = settings.devices.iter().any(|device| device.kind.ends_with("-iommu-pci"))
            || settings.devices.iter().any(|device| device.kind == "amd-iommu");
        if cpus <= MAX_CPUS_WITHOUT_EIM || !is_q35 || !is_kvm || is_other {
            return;
        }
        let at = settings.topology_at.unwrap_or_default();
        let missing = |device: &Object, key: &str| device.property(key).is_none();
        match settings.devices.iter_mut().find(|device| device.kind == "intel-iommu") {
            Some(device) => {
                for key in ["intremap", "eim"] {
                    if missing(device, key) {
                        device.properties.push(self.property(key, "on", at));
                    }
                }
            }
            None => {
                let properties =
                    ["intremap", "eim"].map(|key| self.property(key, "on", at)).to_vec();
                settings.devices.push(Object { kind: "intel-iommu".to_owned(), at, properties });
            }
        }
        if settings.machine_property("kernel-irqchip").is_none() {
            settings.machine.push(self.property("kernel-irqchip", "split", at));
        }
    }

    /// libosinfo's identifier of the guest, where an installer left one.
    fn guest(&self, settings: &mut QemuSettings) {
        let Some(metadata) = child(self.domain, "metadata") else { return };
        let Some(os) = metadata.descendants().find(|node| node.tag_name().name() == "os") else {
            return;
        };
        let Some(id) = attribute(os, "id") else { return };
        let value = id.value();
        const LINUX: [&str; 12] = [
            "ubuntu.com",
            "debian.org",
            "fedoraproject.org",
            "redhat.com",
            "centos.org",
            "suse.com",
            "opensuse.org",
            "archlinux.org",
            "almalinux.org",
            "rockylinux.org",
            "oracle.com/ol",
            "alpinelinux.org",
        ];
        let guest = if value.contains("microsoft.com/win") {
            Guest::Windows
        } else if LINUX.iter().any(|vendor| value.contains(vendor)) || value.contains("/linux") {
            Guest::Linux
        } else {
            return;
        };
        settings.guest = Some(placed(guest, self.place_of(&id)));
    }

    /// `<qemu:commandline>`: more words for QEMU, after libvirt's own.
    fn command_line(&self, mut settings: QemuSettings) -> QemuSettings {
        let Some(extra) = child(self.domain, "commandline") else { return settings };
        let mut words = Vec::new();
        for argument in elements(extra).filter(|node| node.tag_name().name() == "arg") {
            if let Some(value) = attribute(argument, "value") {
                let range = value.range_value();
                let start = self.start + range.start;
                words.push(Word::plain(self.source(range), start));
            }
        }
        settings.extend(additional_settings(&words, self.lines));
        settings
    }
}
