//! System calls that a machine needs, and no other: what is refused is as if the kernel did not
//! know it, so that libraries fall back to what they have for older ones.

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;

/// Whatever the arguments are. Those that name a file by its path are Landlock's matter; those
/// that change one by its path, which Landlock does not see (chmod, chown, setxattr), are missing.
const ALLOWED: &[i64] = &[
    // Files that are open, or that Landlock lets be opened.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fgetxattr,
    libc::SYS_flistxattr,
    libc::SYS_fsetxattr,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_readlinkat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_umask,
    libc::SYS_memfd_create,
    // Memory; what may be executed stands below.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads, signals and time.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_ppoll,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    // The line editor's wait for keys and for a terminal of another size. A pair of sockets leads
    // nowhere but to this process.
    libc::SYS_pselect6,
    libc::SYS_socketpair,
    // Who this is, and chance.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    // A connection of the debugger's; the socket was listened on before the wall was up.
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_shutdown,
];

/// Older forms of the same, which newer architectures have not got.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Of terminals: what they are and how they are read. Not TIOCSTI, which types for the user.
const OF_TERMINALS: [u64; 11] = [
    0x5401,      // TCGETS
    0x5402,      // TCSETS
    0x5403,      // TCSETSW
    0x5404,      // TCSETSF
    0x802C_542A, // TCGETS2
    0x402C_542B, // TCSETS2
    0x402C_542C, // TCSETSW2
    0x402C_542D, // TCSETSF2
    0x5413,      // TIOCGWINSZ
    0x5421,      // FIONBIO
    0x5451,      // FIOCLEX
];

const EXECUTE: u64 = libc::PROT_EXEC as u64;
const WRITE: u64 = libc::PROT_WRITE as u64;
const THREAD: u64 = libc::CLONE_THREAD as u64;
/// The name of a piece of memory, which the C library gives where it is asked to.
const SET_VMA: u64 = 0x5356_4D41;

/// Lets no thread of this process call anything else from now on.
pub fn close() -> Result<(), String> {
    let program = program().map_err(|error| error.to_string())?;
    apply_filter_all_threads(&program).map_err(|error| match error {
        Error::Seccomp(why) | Error::Prctl(why) => format!("seccomp: {why}"),
        error => error.to_string(),
    })
}

fn program() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    let is = |argument, value| rule(argument, SeccompCmpOp::Eq, value);
    // Without any flag that is masked.
    let lacks = |argument, flags| rule(argument, SeccompCmpOp::MaskedEq(flags), 0);
    let has = |argument, flags| rule(argument, SeccompCmpOp::MaskedEq(flags), flags);
    let of_terminals: Result<Vec<_>, _> =
        OF_TERMINALS.map(|what| is(1, what)).into_iter().collect();
    let held: [(i64, Vec<SeccompRule>); 10] = [
        (libc::SYS_ioctl, of_terminals?),
        // Nothing is written and executed in one place: translated code has two mappings.
        (libc::SYS_mmap, vec![lacks(2, EXECUTE)?, lacks(2, WRITE)?]),
        (libc::SYS_mprotect, vec![lacks(2, EXECUTE)?, lacks(2, WRITE)?]),
        // Threads, no processes. What clone3 is asked for cannot be seen: it is not there.
        (libc::SYS_clone, vec![has(0, THREAD)?]),
        (libc::SYS_prctl, vec![is(0, libc::PR_SET_NAME as u64)?, is(0, SET_VMA)?]),
        // Times of what is open, not of what has a path.
        (libc::SYS_utimensat, vec![rule_long(1, 0)?]),
        (libc::SYS_prlimit64, vec![is(0, 0)?, is(0, own)?]),
        (libc::SYS_kill, vec![is(0, own)?]),
        (libc::SYS_tgkill, vec![is(0, own)?]),
        (libc::SYS_rt_tgsigqueueinfo, vec![is(0, own)?]),
    ];
    rules.extend(held);
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, ARCH.try_into()?)?.try_into()
}

fn rule(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)?;
    SeccompRule::new(vec![condition])
}

fn rule_long(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::Eq;
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, equal, value)?;
    SeccompRule::new(vec![condition])
}
