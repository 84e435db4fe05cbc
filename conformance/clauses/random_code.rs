//! Random code of a guest, and rounds by their seeds: what the random clause tests of both vendors
//! share.

use bus::Random;

/// Of a guest's code.
pub const CODE_BYTES: usize = 0x200;

/// Instructions that hypervisors of either vendor look at; in 32-bit and 64-bit code alike.
const SENSITIVE: &[&[u8]] = &[
    &[0x0F, 0xA2],       // CPUID
    &[0xF4],             // HLT
    &[0x0F, 0x32],       // RDMSR
    &[0x0F, 0x30],       // WRMSR
    &[0x0F, 0x20, 0xC0], // MOV EAX, CR0
    &[0x0F, 0x22, 0xC0], // MOV CR0, EAX
    &[0x0F, 0x22, 0xD8], // MOV CR3, EAX
    &[0x0F, 0x22, 0xE0], // MOV CR4, EAX
    &[0x0F, 0x06],       // CLTS
    &[0x0F, 0x01, 0xF0], // LMSW AX
    &[0x0F, 0x21, 0xF8], // MOV EAX, DR7
    &[0x0F, 0x23, 0xF8], // MOV DR7, EAX
    &[0xCD, 0x40],       // INT 40h
    &[0xCC],             // INT3
    &[0xF1],             // INT1
    &[0xCF],             // IRET
    &[0xFB],             // STI
    &[0xFA],             // CLI
    &[0x8E, 0xD1],       // MOV SS, CX
    &[0x9D],             // POPF
    &[0xF3, 0x90],       // PAUSE
    &[0xEC],             // IN AL, DX
    &[0xEF],             // OUT DX, EAX
    &[0x6C],             // INSB
    &[0x0F, 0x31],       // RDTSC
    &[0x0F, 0x01, 0xF9], // RDTSCP
    &[0x0F, 0x33],       // RDPMC
    &[0x0F, 0x01, 0xD1], // XSETBV
    &[0x0F, 0x09],       // WBINVD
    &[0x0F, 0x08],       // INVD
    &[0x0F, 0x01, 0x3B], // INVLPG [EBX]
    &[0x0F, 0x01, 0x03], // SGDT [EBX]
    &[0x0F, 0x01, 0x13], // LGDT [EBX]
    &[0x0F, 0x00, 0xC8], // STR EAX
    &[0x0F, 0x00, 0xD0], // LLDT AX
    &[0x0F, 0x01, 0xC8], // MONITOR
    &[0x0F, 0x01, 0xC9], // MWAIT
    &[0x8B, 0x03],       // MOV EAX, [EBX]
    &[0x89, 0x03],       // MOV [EBX], EAX
    &[0x0F, 0x0B],       // UD2
    &[0xF7, 0xF1],       // DIV ECX
];

/// A guest's code: bytes, moves of a `value` into a register, and instructions that hypervisors
/// look at, `of_vendor` among them.
pub fn code(
    random: &mut Random,
    of_vendor: &[&[u8]],
    value: impl Fn(&mut Random) -> u64,
) -> Vec<u8> {
    let mut code = Vec::new();
    while code.len() < CODE_BYTES {
        if random.one_in(4) {
            code.push(random.next() as u8);
        } else if random.one_in(3) {
            code.push(random.pick(&[0xB8, 0xB9, 0xBA, 0xBB]));
            code.extend((value(random) as u32).to_le_bytes());
        } else {
            let at = random.below((SENSITIVE.len() + of_vendor.len()) as u64) as usize;
            code.extend(SENSITIVE.iter().chain(of_vendor).nth(at).copied().unwrap_or_default());
        }
    }
    code
}

/// A running hash of what rounds left behind: equal processors leave the same.
#[derive(Clone, Copy)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Digest {
    /// Folds a word in, by FNV-1a with words for bytes.
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(23);
    }

    /// Folds memory in.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
        words.for_each(|word| self.word(u64::from_le_bytes(word)));
    }

    /// The value so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Does `round` with seeds from AVICENNA_FUZZ_SEED on, AVICENNA_FUZZ_ROUNDS of them or as many as
/// usual. One that fails is named. What the usual ones left behind is the row `name` of
/// golden/hashes.tsv.
#[cfg(test)]
pub fn rounds(name: &str, usual: u64, round: fn(u64) -> u64) {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse::<u64>().expect("a number"));
    let (first, count) = (number("AVICENNA_FUZZ_SEED"), number("AVICENNA_FUZZ_ROUNDS"));
    let is_usual = first.is_none() && count.is_none();
    let first = first.unwrap_or(0);
    let mut all = Digest::default();
    for seed in first..first + count.unwrap_or(usual) {
        let outcome = std::panic::catch_unwind(|| round(seed));
        all.word(outcome.unwrap_or_else(|_| panic!("the round with seed {seed} failed")));
    }
    if is_usual {
        let found = format!("{:016x}", all.value());
        // `cargo xtask golden` reads this line.
        println!("golden {name} {found}");
        let rows = include_str!("../../golden/hashes.tsv");
        let row = rows.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        let known = row.and_then(|row| row.split('\t').next_back());
        assert_eq!(known, Some(found.as_str()), "{name}: golden/README.md says what that means");
    }
}
