package sandboxtest

import (
	"golang.org/x/sys/unix"

	"haft"
)

// machineCalls are those that only this architecture has. A number with bit 30
// set is of the x32 ABI.
func machineCalls() map[string]int {
	return map[string]int{
		"iopl": unix.SYS_IOPL, "ioperm": unix.SYS_IOPERM, "modify_ldt": unix.SYS_MODIFY_LDT,
		"uselib": unix.SYS_USELIB, "x32_getpid": 0x40000000 | unix.SYS_GETPID,
	}
}

// abiCases make system calls as another architecture would.
func abiCases() []Case {
	return []Case{{
		Name: "int_0x80_is_not_a_way_around", Group: Descriptors, Needs: controls(haft.ControlSeccomp),
		Story: "The 32-bit way into the kernel has other numbers, which a filter for 64 bits would misread: it kills.",
		// mov eax, 20 (getpid); int 0x80; ret
		Program: py(`import mmap
def old():
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(bytes.fromhex('b814000000cd80c3'))
    f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
    r = f()
    if r == os.getpid(): return r
    failed(-r if r < 0 else errno.ENOSYS)
attempt('it', old)`),
		// 11: a kernel without the 32-bit entry faults.
		Check: refused(append([]string{"SIG11"}, deniedCall...), "it"),
	}}
}
