/*
 * A linux.uml of 6.1 keeps 2696 bytes of register state for a process, which is
 * all there was up to AVX-512. A processor with AMX has 11 kB, and its kernel
 * refuses to set less than the whole (EFAULT: "ptrace set fp regs failed,
 * errno = 14", then the guest's init dies). vm-run preloads this into linux.uml
 * there. The guest never has AMX state: a process must ask the host's kernel
 * for it, and in UML its call never gets there; so zeros are its true value.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { NT_X86_XSTATE = 0x202 };
typedef long ptrace_fn(int req, int pid, void *addr, void *data);

static ptrace_fn *next;
static size_t host_size;
static char area[1 << 16] __attribute__((aligned(64)));

/* set_xstate fills a short register area up with zeros (the initial state) to the size the host insists on. */
static long set_xstate(int pid, struct iovec *given)
{
	struct iovec whole = { area, sizeof(area) };

	if (!host_size) {
		if (next(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &whole) < 0)
			return -1;
		host_size = whole.iov_len;
		memset(area, 0, sizeof(area));
	}
	if (given->iov_len >= host_size)
		return next(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, given);
	memcpy(area, given->iov_base, given->iov_len);
	whole.iov_len = host_size;
	return next(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request req, ...)
{
	va_list ap;
	va_start(ap, req);
	int pid = va_arg(ap, int);
	void *addr = va_arg(ap, void *), *data = va_arg(ap, void *);
	va_end(ap);

	if (!next)
		next = (ptrace_fn *)dlsym(RTLD_NEXT, "ptrace");
	if (req == PTRACE_SETREGSET && addr == (void *)NT_X86_XSTATE)
		return set_xstate(pid, data);
	return next(req, pid, addr, data);
}
