//! Steps for virtual machines: the definitions that libvirt and Proxmox will start next, repaired
//! as `lint --fix` repairs them. Machines that someone else defines are told about by
//! [`crate::why`].

use super::step::{Action, Step};
use crate::capability::{Report, Row};
use crate::configuration::Kind;
use crate::finding::{Answer, Needs};
use crate::inhibit::Vendor;
use crate::lint::{Target, fix};
use reading::{ConfigurationFile, Facts};

/// Repaired definitions, one step for each file and one for telling libvirt.
pub fn steps(facts: &Facts, report: &Report) -> Vec<Step> {
    let vendor = facts.cpus.iter().find_map(|cpu| {
        let vendor = cpu.vendor.as_ref()?;
        match (vendor.has_svm(), vendor.has_vmx()) {
            (true, _) => Some(Vendor::Amd),
            (_, true) => Some(Vendor::Intel),
            _ => None,
        }
    });
    let lacks = [Row::CpuAvic, Row::CpuPostedInterrupts]
        .iter()
        .any(|id| report.finding(*id).is_some_and(|row| row.answer == Answer::No));
    let Some(vendor) = vendor.filter(|_| !lacks) else { return vec![] };
    let target =
        Target { vendors: vec![vendor], kernel: facts.running_kernel(), ..Target::default() };
    facts.definitions.iter().flat_map(|file| repaired(file, &target)).collect()
}

fn repaired(file: &ConfigurationFile, target: &Target) -> Vec<Step> {
    let is_xml = file.path.ends_with(".xml");
    let kind = if is_xml { Kind::LibvirtXml } else { Kind::Proxmox };
    let Ok(fixed) = fix::fixed(&file.path, &file.text, Some(kind), target) else { return vec![] };
    if fixed.text == file.text {
        return vec![];
    }
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    let step = |verb: &str, action| Step {
        id: format!("vm-{name}"),
        title: format!("virtual machine {name}: {verb} {}", file.path),
        because: "lint".into(),
        action,
        needs: Needs::VmRestart,
        risk: "the guest's timers and interrupt controllers change with its next start".into(),
        is_optional: true,
    };
    let write = step(
        "repair",
        Action::Write {
            path: file.path.clone(),
            before: Some(file.text.clone()),
            after: fixed.text.clone(),
        },
    );
    let define: Vec<String> = ["virsh", "define", &file.path].map(String::from).to_vec();
    match is_xml {
        true => {
            let run = Action::Run { command: define.clone(), undo: define, keeps: vec![] };
            vec![write, step("have libvirt take over", run)]
        }
        false => vec![write],
    }
}
