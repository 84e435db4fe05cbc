//! What Identify and Get Log Page answer: offsets in bytes. [NVME "Identify command"]
//! [NVME "Get Log Page command"]

/// Bytes that Identify answers, whatever is asked.
pub const SIZE: usize = 4096;

/// CNS, bits 7:0 of dword 10: what is asked.
pub mod structure {
    /// [`super::namespace`]
    pub const NAMESPACE: u8 = 0x00;
    /// [`super::controller`]
    pub const CONTROLLER: u8 = 0x01;
    /// Namespace identifiers above the one given, in order, 1,024 at most.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// [`super::descriptor`]s of a namespace.
    pub const DESCRIPTORS: u8 = 0x03;
}

/// Identify Controller.
pub mod controller {
    /// PCI vendor identifier.
    pub const VENDOR: usize = 0;
    /// PCI subsystem vendor identifier.
    pub const SUBSYSTEM_VENDOR: usize = 2;
    /// 20 characters, filled up with spaces.
    pub const SERIAL_NUMBER: usize = 4;
    /// 40 characters, filled up with spaces.
    pub const MODEL_NUMBER: usize = 24;
    /// 8 characters, filled up with spaces.
    pub const FIRMWARE: usize = 64;
    /// RAB: commands that are best given at a time, a power of two.
    pub const BURST: usize = 72;
    /// MDTS: the longest transfer is a page shifted left by this.
    pub const LONGEST_TRANSFER: usize = 77;
    /// CNTLID
    pub const IDENTIFIER: usize = 78;
    /// VER, as the register.
    pub const VERSION: usize = 80;
    /// CNTRLTYPE: see [`IO_CONTROLLER`].
    pub const KIND: usize = 111;
    /// ACL: Abort commands at a time, less one.
    pub const ABORT_LIMIT: usize = 258;
    /// AERL: event requests at a time, less one.
    pub const EVENT_REQUEST_LIMIT: usize = 259;
    /// FRMW: firmware slots in bits 3:1; bit 0: the first is read-only.
    pub const FIRMWARE_UPDATES: usize = 260;
    /// LPA: see [`EXTENDED_LOG_DATA`].
    pub const LOG_PAGES: usize = 261;
    /// ELPE: entries of the error log, less one.
    pub const ERROR_LOG_ENTRIES: usize = 262;
    /// WCTEMP: kelvins from which on it is warm.
    pub const WARNING_TEMPERATURE: usize = 266;
    /// CCTEMP: kelvins from which on it is too hot.
    pub const CRITICAL_TEMPERATURE: usize = 268;
    /// SQES: powers of two, required below and greatest above.
    pub const SUBMISSION_SIZE: usize = 512;
    /// CQES, alike.
    pub const COMPLETION_SIZE: usize = 513;
    /// NN
    pub const NAMESPACES: usize = 516;
    /// ONCS: see [`DATASET_MANAGEMENT`] and [`WRITE_ZEROES`].
    pub const OPTIONAL_COMMANDS: usize = 520;
    /// VWC: see [`VOLATILE_WRITE_CACHE`] and [`FLUSHES_ALL`].
    pub const WRITE_CACHE: usize = 525;
    /// SUBNQN: a qualified name with a NUL behind.
    pub const SUBSYSTEM_NAME: usize = 768;
    /// The first power state's descriptor; it begins with MP, in hundredths of a watt.
    pub const POWER_STATES: usize = 2048;

    /// [`KIND`] of a controller with namespaces.
    pub const IO_CONTROLLER: u8 = 1;
    /// Of [`LOG_PAGES`]: Get Log Page has offsets and lengths of 32 bits.
    pub const EXTENDED_LOG_DATA: u8 = 1 << 2;
    /// Of [`OPTIONAL_COMMANDS`].
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// Of [`OPTIONAL_COMMANDS`].
    pub const WRITE_ZEROES: u16 = 1 << 3;
    /// Of [`WRITE_CACHE`]: there is one.
    pub const VOLATILE_WRITE_CACHE: u8 = 1;
    /// Of [`WRITE_CACHE`]: Flush takes the identifier of all namespaces.
    pub const FLUSHES_ALL: u8 = 3 << 1;
}

/// Identify Namespace.
pub mod namespace {
    /// NSZE: in blocks.
    pub const SIZE: usize = 0;
    /// NCAP: blocks that can be in use at a time.
    pub const CAPACITY: usize = 8;
    /// NUSE: blocks in use.
    pub const USED: usize = 16;
    /// NSATTR: see [`IS_WRITE_PROTECTED`].
    pub const ATTRIBUTES: usize = 99;
    /// NGUID, 16 bytes, big-endian.
    pub const GLOBAL_IDENTIFIER: usize = 104;
    /// EUI64, 8 bytes, big-endian.
    pub const EXTENDED_IDENTIFIER: usize = 120;
    /// LBAF0: the first format, a dword with the block's size as a power of two in bits 23:16.
    pub const FORMATS: usize = 128;

    /// Of [`ATTRIBUTES`].
    pub const IS_WRITE_PROTECTED: u8 = 1;
}

/// Namespace Identification Descriptors: kind, length, two bytes of nothing, identifier.
pub mod descriptor {
    /// EUI64, of 8 bytes.
    pub const EXTENDED: u8 = 1;
    /// NGUID, of 16 bytes.
    pub const GLOBAL: u8 = 2;
}

/// LID, bits 7:0 of dword 10 of Get Log Page, and sizes of the pages.
pub mod log {
    /// [`super::error`] entries, the youngest first.
    pub const ERROR: u8 = 0x01;
    /// [`super::health`]
    pub const HEALTH: u8 = 0x02;
    /// Which firmware runs: bits 2:0 of byte 0 are the slot, names of 8 characters from byte 8 on.
    pub const FIRMWARE_SLOT: u8 = 0x03;
    /// Bytes of the health and of the firmware's page.
    pub const SIZE: usize = 512;
}

/// An entry of the error log.
pub mod error {
    /// Bytes of an entry.
    pub const SIZE: usize = 64;
    /// How many errors there were with it, 64 bits; 0: no entry.
    pub const COUNT: usize = 0;
    /// Submission queue identifier.
    pub const QUEUE: usize = 8;
    /// Command identifier; FFFFh if it was not a command.
    pub const IDENTIFIER: usize = 10;
    /// The status, with the phase below it.
    pub const STATUS: usize = 12;
    /// FFFFh: no field of the command is named.
    pub const LOCATION: usize = 14;
    /// The first block.
    pub const BLOCK: usize = 16;
    /// NSID
    pub const NAMESPACE: usize = 24;
}

/// SMART / Health Information.
pub mod health {
    /// Warnings; see [`TEMPERATURE`].
    pub const WARNING: usize = 0;
    /// Composite temperature in kelvins.
    pub const COMPOSITE: usize = 1;
    /// Spare capacity, per cent.
    pub const SPARE: usize = 3;
    /// Where spare capacity is too little.
    pub const SPARE_THRESHOLD: usize = 4;
    /// Thousands of 512 bytes that the host has read, 128 bits, rounded up.
    pub const UNITS_READ: usize = 32;
    /// Alike, written.
    pub const UNITS_WRITTEN: usize = 48;
    /// Read commands.
    pub const READS: usize = 64;
    /// Write commands.
    pub const WRITES: usize = 80;
    /// Entries that the error log ever had.
    pub const ERRORS: usize = 176;

    /// Of [`WARNING`]: a temperature beyond its threshold.
    pub const TEMPERATURE: u8 = 1 << 1;
}
