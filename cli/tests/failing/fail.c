/*
 * Runs a program and lets one of its system calls fail: fail CODE CALL NTH PROGRAM [WORDS...]
 *
 * The NTH time, from 1 on, that the program makes the CALL of this number it is not made and answers
 * with the error code; 0 lets all be made. How often each was made is written to descriptor 3, and
 * whether one failed. Calls are counted in all threads, from the one on that is the last before
 * Rust's main, and in no process that the program starts. The kernel asks this program before each
 * of them (seccomp's user notification), so it does not matter who makes them: the C library, or
 * others by themselves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of memory: they fail with ENOMEM alone, and no others then. */
static const int memory[] = { SYS_mmap, SYS_mremap, SYS_mprotect };
/* Rust's runtime gives its main thread a stack for signals before it begins main. */
#define LAST_BEFORE_MAIN SYS_sigaltstack
#define MOST_CALLS 512
/* They have no error, end the program, or hand over the descriptor below. */
static const int left_out[] = {
	SYS_brk, SYS_poll, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall, SYS_execve, SYS_futex,
	SYS_sendmsg, SYS_munmap, SYS_madvise, SYS_rseq, SYS_set_robust_list, SYS_set_tid_address,
	SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_sched_yield, SYS_arch_prctl, SYS_getpid, SYS_gettid,
	SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_umask,
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static void die(const char *what)
{
	perror(what);
	_exit(125);
}

/* A filter that has everything else asked for, and the descriptor to ask by. */
static int asks(int is_memory)
{
	struct sock_filter lines[2 * (COUNT(memory) + COUNT(left_out)) + 6];
	unsigned short at = 0;
	const int *list = is_memory ? memory : left_out;
	size_t count = is_memory ? COUNT(memory) : COUNT(left_out);
	unsigned listed = is_memory ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
	unsigned other = is_memory ? SECCOMP_RET_ALLOW : SECCOMP_RET_USER_NOTIF;

	lines[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	lines[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LAST_BEFORE_MAIN, 0, 1);
	lines[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	for (size_t index = 0; index < count; index++) {
		lines[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, list[index], 0, 1);
		lines[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
	}
	for (size_t index = 0; !is_memory && index < COUNT(memory); index++) {
		lines[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, memory[index], 0, 1);
		lines[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	lines[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, other);
	struct sock_fprog program = { .len = at, .filter = lines };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		die("no new privileges");
	int asker = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (asker < 0)
		die("seccomp");
	return asker;
}

union message { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; };

static void send_descriptor(int to, int descriptor)
{
	union message control = { 0 };
	struct iovec one = { .iov_base = "", .iov_len = 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.head), &descriptor, sizeof descriptor);
	if (sendmsg(to, &message, 0) < 0)
		die("sendmsg");
}

static int received_descriptor(int from)
{
	union message control;
	char byte;
	struct iovec one = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	int descriptor;
	if (recvmsg(from, &message, 0) != 1 || message.msg_controllen == 0)
		die("recvmsg");
	memcpy(&descriptor, CMSG_DATA(&control.head), sizeof descriptor);
	return descriptor;
}

/* Whether a call is one of this process, and can fail: closing a folder cannot. */
static int counts(const struct seccomp_notif *asked, int process)
{
	char path[64];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d/task/%d", process, asked->pid);
	if ((int)asked->pid != process && access(path, F_OK))
		return 0;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", process, (int)asked->data.args[0]);
	return asked->data.nr != SYS_close || stat(path, &facts) || !S_ISDIR(facts.st_mode);
}

int main(int count, char **words)
{
	int pair[2];
	if (count < 5)
		return fprintf(stderr, "fail CODE CALL NTH PROGRAM [WORDS...]\n"), 125;
	int code = atoi(words[1]), call = atoi(words[2]), has_begun = 0;
	long nth = atol(words[3]), seen[MOST_CALLS] = { 0 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		die("socketpair");
	int child = fork();
	if (child == 0) {
		int asker = asks(code == ENOMEM);
		send_descriptor(pair[1], asker);
		syscall(SYS_execve, words[4], words + 4, environ);
		_exit(125);
	}
	int asker = received_descriptor(pair[0]);
	struct pollfd wait = { .fd = asker, .events = POLLIN };
	/* The descriptor says HUP once nobody is left who asks. */
	while (poll(&wait, 1, -1) > 0 && !(wait.revents & POLLHUP)) {
		struct seccomp_notif asked = { 0 };
		if (ioctl(asker, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		struct seccomp_notif_resp answer = { .id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
		int nr = asked.data.nr;
		if (nr == LAST_BEFORE_MAIN)
			has_begun = 1;
		else if (has_begun && nr < MOST_CALLS && counts(&asked, child) && ++seen[nr] == nth && nr == call) {
			answer.flags = 0;
			answer.error = -code;
			dprintf(3, "failed %d\n", nr);
		}
		ioctl(asker, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	int status;
	waitpid(child, &status, 0);
	for (int nr = 0; nr < MOST_CALLS; nr++)
		if (seen[nr])
			dprintf(3, "call %d %ld\n", nr, seen[nr]);
	if (WIFSIGNALED(status)) {
		dprintf(3, "signal %d\n", WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}
