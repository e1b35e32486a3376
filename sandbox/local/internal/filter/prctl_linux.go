package filter

import (
	"strings"

	"golang.org/x/sys/unix"
)

// A request is one of prctl.
type request struct {
	name  string
	value uint32
	// nested is for a sandbox with a pid namespace only: it changes what becomes of processes when their parent dies.
	nested bool
}

// requestList are the requests of prctl that are allowed. The kernel gets new ones, some of which take memory that
// nobody counts (PR_FUTEX_HASH: a gigabyte by one call) or look at what other processes have (PR_SET_MEMORY_MERGE).
// So whoever adds one here has read what it does.
var requestList = []request{
	{"PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, true},
	{"PR_GET_PDEATHSIG", unix.PR_GET_PDEATHSIG, false},
	{"PR_GET_DUMPABLE", unix.PR_GET_DUMPABLE, false},
	{"PR_GET_KEEPCAPS", unix.PR_GET_KEEPCAPS, false},
	{"PR_SET_KEEPCAPS", unix.PR_SET_KEEPCAPS, false},
	{"PR_SET_NAME", unix.PR_SET_NAME, false},
	{"PR_GET_NAME", unix.PR_GET_NAME, false},
	{"PR_GET_SECCOMP", unix.PR_GET_SECCOMP, false},
	{"PR_CAPBSET_READ", unix.PR_CAPBSET_READ, false},
	{"PR_GET_SECUREBITS", unix.PR_GET_SECUREBITS, false},
	{"PR_SET_TIMERSLACK", unix.PR_SET_TIMERSLACK, false},
	{"PR_GET_TIMERSLACK", unix.PR_GET_TIMERSLACK, false},
	{"PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, true},
	{"PR_GET_CHILD_SUBREAPER", unix.PR_GET_CHILD_SUBREAPER, false},
	{"PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, false},
	{"PR_GET_NO_NEW_PRIVS", unix.PR_GET_NO_NEW_PRIVS, false},
	{"PR_GET_TID_ADDRESS", unix.PR_GET_TID_ADDRESS, false},
	{"PR_SET_THP_DISABLE", unix.PR_SET_THP_DISABLE, false},
	{"PR_GET_THP_DISABLE", unix.PR_GET_THP_DISABLE, false},
	{"PR_CAP_AMBIENT", unix.PR_CAP_AMBIENT, false},
	{"PR_SVE_SET_VL", unix.PR_SVE_SET_VL, false},
	{"PR_SVE_GET_VL", unix.PR_SVE_GET_VL, false},
	{"PR_GET_SPECULATION_CTRL", unix.PR_GET_SPECULATION_CTRL, false},
	{"PR_GET_TAGGED_ADDR_CTRL", unix.PR_GET_TAGGED_ADDR_CTRL, false},
	{"PR_SET_MDWE", unix.PR_SET_MDWE, false},
	{"PR_GET_MDWE", unix.PR_GET_MDWE, false},
	{"PR_GET_MEMORY_MERGE", unix.PR_GET_MEMORY_MERGE, false},
	{"PR_GET_SHADOW_STACK_STATUS", 74, false},
	{"PR_SET_SHADOW_STACK_STATUS", 75, false},
	{"PR_LOCK_SHADOW_STACK_STATUS", 76, false},
	{"PR_SET_VMA", unix.PR_SET_VMA, false},
	{"PR_GET_AUXV", unix.PR_GET_AUXV, false},
}

// requests judges the requests of prctl. Others get the error of a kernel that does not have them; but what would add
// a filter (its compiled form is kernel memory that nobody counts) or hide the caller from the meter, which looks into
// /proc, gets that of a call that is forbidden.
func requests(c Config) argument {
	a := argument{index: 0, other: uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EINVAL),
		cases: map[uint32]uint32{unix.PR_SET_SECCOMP: denied, unix.PR_SET_DUMPABLE: denied, unix.PR_SET_PTRACER: denied,
			unix.PR_SCHED_CORE: denied, unix.PR_SET_MM: denied}}
	for _, r := range requestList {
		if a.cases[r.value] = allow; r.nested && c.Reduced {
			a.cases[r.value] = denied
		}
	}
	return a
}

// requestNames says which requests of prctl are allowed.
func requestNames() string {
	var list, nested []string
	for _, r := range requestList {
		if list = append(list, r.name); r.nested {
			nested = append(nested, r.name)
		}
	}
	return strings.Join(list, ", ") + "; without namespaces not " + strings.Join(nested, ", ")
}
