use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;

const CODE: u64 = 0x1000;
const DATA: u64 = 0x2000;
const SIZE: usize = 0x3000;

/// Two processors that know five instructions, take turns and share memory.
struct Toy {
    memory: Vec<u8>,
    cpus: Vec<DebugRegisters>,
    points: Vec<StopPoint>,
    next: usize,
}

impl Toy {
    /// A loop that counts in RAX and stores AL at RDI; the second processor starts in a loop of
    /// its own behind it.
    fn new() -> Self {
        let mut memory = vec![0; SIZE];
        let code = [
            0x90, // 1000 nop
            0x48, 0xFF, 0xC0, // 1001 inc rax
            0x88, 0x07, // 1004 mov [rdi], al
            0x90, // 1006 nop
            0xEB, 0xF7, // 1007 jmp 1000
            0x90, 0xEB, 0xFD, // 1009 nop; jmp 1009
            0xF4, // 100c hlt: switches off
        ];
        memory[CODE as usize..CODE as usize + code.len()].copy_from_slice(&code);
        let mut cpus = vec![DebugRegisters::default(); 2];
        cpus[0].rip = CODE;
        cpus[0].general[7] = DATA;
        cpus[0].fs_base = 0x1122_3344_5566_7788;
        cpus[0].xmm[3] = 0x0102;
        cpus[0].system[2] = 0xABC000;
        cpus[1].rip = CODE + 9;
        Self { memory, cpus, points: Vec::new(), next: 0 }
    }

    fn execute(&mut self, cpu: usize) -> Option<Stop> {
        let index = CpuIndex(cpu as u16);
        let registers = &mut self.cpus[cpu];
        let at = registers.rip as usize;
        match self.memory[at..at + 3] {
            [0x90, ..] => registers.rip += 1,
            [0x48, 0xFF, 0xC0] => {
                registers.general[0] += 1;
                registers.rip += 3;
            }
            [0x88, 0x07, _] => {
                let address = registers.general[7];
                self.memory[address as usize] = registers.general[0] as u8;
                registers.rip += 2;
                let access = WatchedAccess::Write;
                let is_watched = self.points.iter().any(|point| {
                    matches!(point, StopPoint::Watch { start, length, .. }
                        if (start.0..start.0 + length).contains(&address))
                });
                let stop = Stop::Watch { cpu: index, address: Linear(address), access };
                return is_watched.then_some(stop);
            }
            [0xEB, distance, _] => {
                registers.rip = registers.rip.wrapping_add_signed(i64::from(distance as i8) + 2);
            }
            [0xF4, ..] => return Some(Stop::Off { status: 33 }),
            _ => return Some(Stop::Shutdown { cpu: index }),
        }
        None
    }
}

impl Debuggee for Toy {
    fn cpu_count(&self) -> u16 {
        2
    }

    fn describe(&self, _: CpuIndex) -> String {
        "a toy".into()
    }

    fn registers(&self, cpu: CpuIndex) -> DebugRegisters {
        self.cpus[usize::from(cpu.0)].clone()
    }

    fn set_registers(&mut self, cpu: CpuIndex, registers: &DebugRegisters) -> bool {
        self.cpus[usize::from(cpu.0)] = registers.clone();
        true
    }

    fn read_memory(&mut self, _: CpuIndex, start: Linear, into: &mut [u8]) -> usize {
        let rest = self.memory.get(start.0 as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        length
    }

    fn write_memory(&mut self, _: CpuIndex, start: Linear, from: &[u8]) -> bool {
        let start = start.0 as usize;
        match self.memory.get_mut(start..start.saturating_add(from.len())) {
            Some(bytes) => bytes.copy_from_slice(from),
            None => return false,
        }
        true
    }

    fn insert(&mut self, point: StopPoint) -> bool {
        self.points.push(point);
        true
    }

    fn remove(&mut self, point: StopPoint) -> bool {
        let found = self.points.iter().position(|other| *other == point);
        found.map(|index| self.points.remove(index)).is_some()
    }

    fn step(&mut self, cpu: CpuIndex, others: Others) -> Stop {
        let other = usize::from(1 - cpu.0);
        let ahead = if others == Others::Run { self.execute(other) } else { None };
        ahead.or_else(|| self.execute(cpu.0.into())).unwrap_or(Stop::Stepped { cpu })
    }

    fn run(&mut self, only: Option<CpuIndex>) -> Option<Stop> {
        (0..1000).find_map(|_| {
            let cpu = only.map_or(self.next, |cpu| cpu.0.into());
            self.next = 1 - cpu;
            let point = StopPoint::Execute(Linear(self.cpus[cpu].rip));
            if self.points.contains(&point) {
                return Some(Stop::Execute { cpu: CpuIndex(cpu as u16) });
            }
            self.execute(cpu)
        })
    }

    fn command(&mut self, command: &str) -> String {
        format!("first {command}\nsecond\n")
    }
}

/// How the visit ended, and what is left of the toy.
type Visit = (Result<Ending, DebugError>, Toy);

/// A toy that waits for a debugger: its port, and the way its visit ends.
fn waiting() -> (u16, JoinHandle<Visit>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let visit = std::thread::spawn(move || {
        let mut toy = Toy::new();
        let (connection, _) = listener.accept().unwrap();
        (serve(&mut toy, connection), toy)
    });
    (port, visit)
}

/// A debugger reduced to its packets.
struct Client(TcpStream);

impl Client {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let mut client = Self(stream);
        client.ask("qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+");
        client
    }

    fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        write!(self.0, "${packet}#{sum:02x}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut byte = [0];
        let mut text = String::new();
        while byte[0] != b'#' {
            self.0.read_exact(&mut byte).unwrap();
            match byte[0] {
                b'$' => text.clear(),
                b'+' | b'#' => {}
                other => text.push(other.into()),
            }
        }
        self.0.read_exact(&mut [0; 2]).unwrap();
        self.0.write_all(b"+").unwrap();
        text
    }

    fn ask(&mut self, packet: &str) -> String {
        self.send(packet);
        self.answer()
    }
}

#[test]
fn packets_reach_threads_registers_memory_points_and_steps() {
    let (port, visit) = waiting();
    let mut client = Client::connect(port);
    let rows = [
        ("?", "T05thread:p01.01;"),
        ("qfThreadInfo", "mp01.01,p01.02"),
        ("m1000,4", "9048ffc0"),
        ("m2fff,10", "00"),
        ("m3000,4", "E"),
        ("M2000,2:beef", "OK"),
        ("M2fff,2:0000", "E"),
        ("m2000,2", "beef"),
        ("Z0,1004,1", "OK"),
        ("vCont;c", "T05thread:p01.01;hwbreak:;"),
        ("z0,1004,1", "OK"),
        ("z0,1004,1", "E"),
        ("vCont;s:p1.1", "T05thread:p01.01;"),
        ("m2000,1", "01"),
        ("vCont;s:p1.2", "T05thread:p01.02;"),
        ("Z2,2000,8", "OK"),
        ("vCont;c", "T05thread:p01.01;watch:2000;"),
        ("z2,2000,8", "OK"),
        ("Z0,1009,1", "OK"),
        ("vCont;c:p1.2", "T05thread:p01.02;"),
        ("z0,1009,1", "OK"),
        // Everything up to the jump, left at the loop's start.
        ("vCont;r1006,1009:p1.1", "T05thread:p01.01;"),
    ];
    for (packet, wanted) in rows {
        let answer = client.ask(packet);
        assert!(answer.starts_with(wanted), "{packet} got {answer}, wanted {wanted}");
    }
    let registers = client.ask("g");
    // RAX is 2; a star and a character stand for a run of zeroes.
    assert!(registers.starts_with("020*"), "{registers}");
    client.send("vCont;c");
    client.0.write_all(&[3]).unwrap();
    let answer = client.answer();
    assert!(answer.starts_with("T02") || answer.starts_with("S02"), "{answer}");
    client.send("D;1");
    let (ending, toy) = visit.join().unwrap();
    assert_eq!(ending, Ok(Ending::Detached));
    assert!(toy.points.is_empty());
}

#[test]
fn a_machine_that_ends_or_shuts_down_says_so() {
    for (code, wanted, ending) in
        [(0xF4, "W21", Some(Ok(Ending::Off { status: 33 }))), (0xCC, "T06thread:p01.01;", None)]
    {
        let (port, visit) = waiting();
        let mut client = Client::connect(port);
        assert_eq!(client.ask(&format!("M1000,1:{code:02x}")), "OK");
        let answer = client.ask("vCont;c");
        assert!(answer.starts_with(wanted), "{answer}");
        if ending.is_none() {
            client.send("vKill;1");
        }
        let (found, _) = visit.join().unwrap();
        assert_eq!(found, ending.unwrap_or(Ok(Ending::Killed)));
    }
}

#[test]
fn a_debugger_that_vanishes_or_talks_nonsense_ends_the_visit_and_nothing_else() {
    let noise: Vec<u8> =
        (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let rows: [&[u8]; 5] = [b"", b"$m1000", b"$g#00", b"$vCont;c#a8", &noise];
    for bytes in rows {
        let (port, visit) = waiting();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream);
        let (ending, _) = visit.join().expect("no panic");
        assert!(ending.is_err(), "{ending:?}");
    }
}

#[test]
fn registers_survive_the_way_out_and_back() {
    use gdbstub::arch::Registers;
    let registers = DebugRegisters {
        general: std::array::from_fn(|n| n as u64 * 3),
        rip: 1 << 63,
        rflags: 2,
        segments: [0x10, 0x18, 0, 0, 5, 6],
        x87: std::array::from_fn(|n| [n as u8; 10]),
        x87_control: std::array::from_fn(|n| n as u32),
        xmm: std::array::from_fn(|n| u128::MAX - n as u128),
        mxcsr: 0x1F80,
        ymm_high: std::array::from_fn(|n| 1 << n),
        fs_base: 7,
        gs_base: 8,
        system: std::array::from_fn(|n| 100 + n as u64),
    };
    let mut bytes = Vec::new();
    registers.gdb_serialize(|byte| bytes.push(byte.unwrap()));
    let mut back = DebugRegisters::default();
    assert_eq!(back.gdb_deserialize(&bytes), Ok(()));
    assert_eq!(back, registers);
    for length in 0..bytes.len() {
        assert_eq!(back.gdb_deserialize(&bytes[..length]), Err(()));
    }
}

#[test]
fn a_real_debugger_understands_all_of_it() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: gdb is not installed");
        return;
    }
    let (port, visit) = waiting();
    let target = format!("target remote 127.0.0.1:{port}");
    let commands = [
        "set pagination off",
        "set confirm off",
        "set tcp connect-timeout 20",
        &target,
        "info threads",
        "printf \"A %#lx %#lx %#lx\\n\", $rip, $fs_base, $cr3",
        "printf \"B %d\\n\", $xmm3.v16_int8[0]",
        "x/3xb 0x1000",
        "break *0x1004",
        "continue",
        "printf \"C %#lx %d\\n\", $rip, $rax",
        "set $rax = 65",
        "delete",
        "stepi",
        "printf \"D %#lx %c\\n\", $rip, *(char*)0x2000",
        "watch *(char*)0x2000",
        "continue",
        "printf \"E %#lx %d\\n\", $rip, $rax",
        "thread 2",
        "printf \"F %d\\n\", $rip == 0x1009 || $rip == 0x100a",
        "monitor hello",
        "detach",
    ];
    let mut gdb = Command::new("timeout");
    gdb.args(["60", "gdb", "-nx", "-batch"]);
    commands.iter().for_each(|command| {
        gdb.args(["-ex", command]);
    });
    let run = gdb.output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let errors = String::from_utf8_lossy(&run.stderr).into_owned();
    let wanted = [
        "cpu0: a toy",
        "cpu1: a toy",
        "A 0x1000 0x1122334455667788 0xabc000",
        "B 2",
        "0x90\t0x48\t0xff",
        "C 0x1004 1",
        "D 0x1006 A",
        "E 0x1006 66",
        "F 1",
        "first hello",
    ];
    for text in wanted {
        assert!((said.clone() + &errors).contains(text), "{text}\n{said}\n{errors}");
    }
    assert_eq!(visit.join().unwrap().0, Ok(Ending::Detached));
}
