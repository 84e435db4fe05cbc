//! One line: who, where, when, what.

/// The parts of a line, its text not yet looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub task: &'a str,
    pub thread: Option<u32>,
    pub process: Option<u32>,
    pub cpu: u32,
    pub time_ns: Option<u64>,
    pub event: &'a str,
    pub text: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for a line that is not an event.
    pub fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (open, close, cpu) = cpu_in_brackets(line).or_else(|| before_time(line))?;
        let (task, thread, process) = parse_task(&line[..open]);
        let mut rest = line[close..].trim_start();
        let mut time_ns = None;
        // Flags, then the time, then the event: the first word that ends in a colon and is no
        // time is the event. Bounded: each turn takes a word.
        loop {
            let end = rest.find([' ', '\t']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let after = after.trim_start();
            match word.strip_suffix(':') {
                Some(time) if time_ns.is_none() && parse_time(time).is_some() => {
                    time_ns = parse_time(time);
                }
                Some(name) => {
                    let event = name.rsplit(':').next().unwrap_or(name);
                    return (!event.is_empty()).then_some(Self {
                        task,
                        thread,
                        process,
                        cpu,
                        time_ns,
                        event,
                        text: after,
                    });
                }
                None if word.is_empty() => return None,
                None => {}
            }
            rest = after;
        }
    }
}

/// The first bracketed number: where it begins, where the line goes on, and the number.
fn cpu_in_brackets(line: &str) -> Option<(usize, usize, u32)> {
    let mut from = 0;
    while let Some(at) = line[from..].find('[') {
        let open = from + at;
        let length = line[open + 1..].find(']')?;
        let digits = &line[open + 1..open + 1 + length];
        if !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(cpu) = digits.parse()
        {
            return Some((open, open + length + 2, cpu));
        }
        from = open + 1;
    }
    None
}

/// Lines without brackets: `perf script` of threads leaves the CPU out, and the latency format
/// writes it before the flags, `0d..1.`. The time of a KVM event is what tells such a line.
fn before_time(line: &str) -> Option<(usize, usize, u32)> {
    let event = line.find(": kvm_").or_else(|| {
        let at = line.find("kvm:kvm_")?;
        line[..at].rfind(':')
    })?;
    let start = line[..event].rfind([' ', '\t'])? + 1;
    parse_time(&line[start..event])?;
    let task = line[..start].trim_end();
    let last = task.rsplit([' ', '\t']).next().unwrap_or_default();
    let digits = last.len() - last.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match last[..digits].parse() {
        Ok(cpu) if is_flags(&last[digits..]) => Some((task.len() - last.len(), start, cpu)),
        _ => Some((task.len(), start, 0)),
    }
}

fn is_flags(word: &str) -> bool {
    word.contains('.')
        && word.bytes().all(|byte| b".dDnNhHsSzZqbBpPxX0123456789*+!#$@".contains(&byte))
}

/// `12/34`: process and thread, as `perf script -F pid,tid` writes them.
fn process_and_thread(word: &str) -> Option<(u32, u32)> {
    let (process, thread) = word.split_once('/')?;
    Some((process.parse().ok()?, thread.parse().ok()?))
}

/// `name-123`, `name-123 (  45)`, `name 123`, `name 45/123` or `name 123 d..1`, names with spaces
/// and dashes among them.
fn parse_task(text: &str) -> (&str, Option<u32>, Option<u32>) {
    let mut text = text.trim();
    let mut process = None;
    if let Some(open) = text.rfind('(').filter(|_| text.ends_with(')')) {
        process = text[open + 1..text.len() - 1].trim().parse().ok();
        text = text[..open].trim_end();
    }
    if let Some((front, last)) = text.rsplit_once(' ')
        && is_flags(last)
    {
        text = front.trim_end();
    }
    let last = text.rsplit(' ').next().unwrap_or(text);
    if let Ok(thread) = last.parse() {
        return (text[..text.len() - last.len()].trim_end(), Some(thread), process);
    }
    if let Some((process, thread)) = process_and_thread(last) {
        return (text[..text.len() - last.len()].trim_end(), Some(thread), Some(process));
    }
    match text.rsplit_once('-') {
        Some((name, digits)) if digits.parse::<u32>().is_ok() => {
            (name.trim(), digits.parse().ok(), process)
        }
        _ => (text, None, process),
    }
}

/// `91.551366` in nanoseconds, whatever the number of decimals.
fn parse_time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(seconds) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction: u64 = fraction.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction * scale)
}

/// `CPU:3 [LOST 123 EVENTS]`
pub fn lost_events(line: &str) -> Option<(u32, u64)> {
    let rest = line.trim().strip_prefix("CPU:")?;
    let (cpu, rest) = rest.split_once(' ')?;
    let rest = rest.trim().strip_prefix("[LOST ")?;
    let count = rest.split(' ').next()?.parse().unwrap_or(1);
    Some((cpu.parse().ok()?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_shape_of_a_line_is_taken_apart() {
        type Row<'a> = (&'a str, &'a str, Option<u32>, Option<u32>, u32, Option<u64>, &'a str);
        let rows: &[Row<'_>] = &[
            (
                " qemu-system-x86-322     [000] .....    91.551366: kvm_set_irq: gsi 4 level 0",
                "qemu-system-x86",
                Some(322),
                None,
                0,
                Some(91_551_366_000),
                "kvm_set_irq",
            ),
            (
                "kvm-5664  [000] 11906.220181: kvm_exit: reason apic_access rip 0xc011518c",
                "kvm",
                Some(5664),
                None,
                0,
                Some(11_906_220_181_000),
                "kvm_exit",
            ),
            (
                "<...> 126953 .... [078] 96822671.255015: kvm:kvm_exit: reason APIC_WRITE rip 0x1",
                "<...>",
                Some(126953),
                None,
                78,
                Some(96_822_671_255_015_000),
                "kvm_exit",
            ),
            (
                "[001]   770.850307:                       kvm:kvm_exit: vcpu 0 reason X rip 0",
                "",
                None,
                None,
                1,
                Some(770_850_307_000),
                "kvm_exit",
            ),
            (
                "CPU 0/KVM-82557 [002] ... kvm_exit: vcpu 0 reason msr rip 0xff",
                "CPU 0/KVM",
                Some(82557),
                None,
                2,
                None,
                "kvm_exit",
            ),
            (
                " CPU 1/KVM-101 (    77) [003] d..1. 5.000000001: kvm_entry: vcpu 1",
                "CPU 1/KVM",
                Some(101),
                Some(77),
                3,
                Some(5_000_000_001),
                "kvm_entry",
            ),
            (
                "   irq/29-AMD-Vi-2740    [005] .... 253283.601523: kvm_avic_ga_log: vmid=33, vcpuid=8",
                "irq/29-AMD-Vi",
                Some(2740),
                None,
                5,
                Some(253_283_601_523_000),
                "kvm_avic_ga_log",
            ),
            (
                "CPU 0/KVM   144/155   [001]    18.000001:  kvm:kvm_exit: vcpu 0 reason hlt rip 0x1",
                "CPU 0/KVM",
                Some(155),
                Some(144),
                1,
                Some(18_000_001_000),
                "kvm_exit",
            ),
            (
                " qemu-system-x86   262    65.460724:  kvm:kvm_exit: vcpu 0 reason hlt rip 0x1",
                "qemu-system-x86",
                Some(262),
                None,
                0,
                Some(65_460_724_000),
                "kvm_exit",
            ),
            (
                "qemu-sys-201     3d..1.    52.844707: kvm_entry:             vcpu 0 rip 0x1",
                "qemu-sys",
                Some(201),
                None,
                3,
                Some(52_844_707_000),
                "kvm_entry",
            ),
        ];
        for (text, task, thread, process, cpu, time_ns, event) in rows {
            let line = Line::parse(text).expect(text);
            let found = (line.task, line.thread, line.process, line.cpu, line.time_ns, line.event);
            assert_eq!(found, (*task, *thread, *process, *cpu, *time_ns, *event), "{text}");
        }
    }

    #[test]
    fn what_is_no_event_is_no_line() {
        for text in [
            "",
            ": kvm_exit: x",
            "x 5: kvm_exit: x",
            "1.0: kvm_",
            "# tracer: nop",
            "[",
            "[12",
            "[x] 1.0: a: b",
            "text [3]",
            "[1] 2.0:",
            "[1] :",
        ] {
            assert_eq!(Line::parse(text), None, "{text:?}");
        }
        assert_eq!(lost_events("CPU:3 [LOST 123 EVENTS]"), Some((3, 123)));
    }
}
