package haft

// AccessKind says what an access of a tool is.
type AccessKind string

// The kinds of access.
const (
	AccessRead    AccessKind = "file-read"
	AccessWrite   AccessKind = "file-write" // made, changed, renamed or removed
	AccessProgram AccessKind = "program"    // started
	AccessConnect AccessKind = "connect"    // an address, past the egress route
	AccessSocket  AccessKind = "socket"     // socket:udp or socket:raw of the internet, which the sandbox refuses
	AccessHost    AccessKind = "host"       // a host, over the egress route
)

// An Access is one thing that a tool tried to touch while it ran. Whether the kernel let it is not known, unless
// Denied says so.
type Access struct {
	Kind AccessKind `json:"kind"`
	// Name is a path inside of the sandbox, an address or a host.
	Name string `json:"name"`
	// Denied says that a rule for the network refused it.
	Denied bool `json:"denied,omitempty"`
}

// Touched is what a tool touched in one call.
type Touched struct {
	// Observed says that the run was observed. Otherwise only its hosts are known.
	Observed bool     `json:"observed,omitempty"`
	Accesses []Access `json:"accesses,omitempty"`
	// Cut says that there was more than is kept, so that what is not in the list may have been touched, too.
	Cut bool `json:"cut,omitempty"`
	// IO is nil if the run had ended before it could be counted, as that of a shell script.
	IO *IO `json:"io,omitempty"`
}

// IO counts system calls that read and write, whatever from and to, and their bytes: those of a tool's process, with
// its interpreter, and of processes that it started and waited for.
type IO struct {
	Reads        int64 `json:"reads"`
	Writes       int64 `json:"writes"`
	ReadBytes    int64 `json:"read_bytes"`
	WrittenBytes int64 `json:"written_bytes"`
}
