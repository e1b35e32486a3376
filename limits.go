package haft

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Millis is a duration that JSON knows as a number of milliseconds.
type Millis time.Duration

// D returns m as a [time.Duration].
func (m Millis) D() time.Duration { return time.Duration(m) }

// String formats m like a [time.Duration].
func (m Millis) String() string { return time.Duration(m).String() }

// MarshalJSON writes milliseconds with microsecond precision.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(math.Round(float64(m)/1e3) / 1e3)
}

// UnmarshalJSON reads a number of milliseconds.
func (m *Millis) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("read milliseconds: %w", err)
	}
	if math.Abs(f) > math.MaxInt64/1e6 {
		return &Error{Code: CodeInvalid, Message: "a duration is out of range"}
	}
	*m = Millis(f * 1e6)
	return nil
}

// Limits bound one run. A zero field means the default, never "unlimited": no
// tool runs without a bound.
type Limits struct {
	Wall      Millis `json:"wall_ms,omitempty"`        // time on the clock
	Grace     Millis `json:"grace_ms,omitempty"`       // from SIGTERM to SIGKILL, after Wall or a cancellation
	CPU       Millis `json:"cpu_ms,omitempty"`         // time on a processor
	Memory    int64  `json:"memory_bytes,omitempty"`   // with tmpfs and shared memory
	Processes int    `json:"processes,omitempty"`      // processes and threads
	OpenFiles int    `json:"open_files,omitempty"`     // descriptors per process
	FileSize  int64  `json:"file_bytes,omitempty"`     // one file
	Disk      int64  `json:"disk_bytes,omitempty"`     // all files of the run
	Inodes    int64  `json:"inodes,omitempty"`         // number of files
	Stdout    int64  `json:"stdout_bytes,omitempty"`   // kept of stdout
	Stderr    int64  `json:"stderr_bytes,omitempty"`   // kept of stderr
	Result    int64  `json:"result_bytes,omitempty"`   // the encoded value
	Artifacts int    `json:"artifacts,omitempty"`      // files given back
	ArtBytes  int64  `json:"artifact_bytes,omitempty"` // all of them together
	Network   int64  `json:"network_bytes,omitempty"`  // sent to named hosts, and as much received
}

// DefaultLimits are the limits of a call that names none.
func DefaultLimits() Limits {
	return Limits{
		Wall: Millis(30 * time.Second), Grace: Millis(50 * time.Millisecond), CPU: Millis(20 * time.Second),
		Memory: 512 << 20, Processes: 64, OpenFiles: 256,
		FileSize: 64 << 20, Disk: 128 << 20, Inodes: 8192,
		Stdout: 1 << 20, Stderr: 1 << 20, Result: 4 << 20,
		Artifacts: 32, ArtBytes: 32 << 20, Network: 1 << 30,
	}
}

// LimitCeilings are the most that a call may ask for unless the operator says
// otherwise.
func LimitCeilings() Limits {
	return Limits{
		Wall: Millis(time.Hour), Grace: Millis(10 * time.Second), CPU: Millis(time.Hour),
		Memory: 16 << 30, Processes: 4096, OpenFiles: 65536,
		FileSize: 4 << 30, Disk: 8 << 30, Inodes: 1 << 20,
		Stdout: 64 << 20, Stderr: 64 << 20, Result: 64 << 20,
		Artifacts: 1024, ArtBytes: 1 << 30, Network: 1 << 40,
	}
}

// Or returns l with its zero fields taken from def.
func (l Limits) Or(def Limits) Limits {
	return l.merge(def, func(a, b int64) int64 {
		if a <= 0 {
			return b
		}
		return a
	})
}

// Within returns l with no field above that of ceiling.
func (l Limits) Within(ceiling Limits) Limits {
	return l.merge(ceiling, func(a, b int64) int64 { return min(a, b) })
}

// Shown returns l as a request for approval shows and binds it: without a grace time and a bound of
// the network that are the default, so that approvals of before there were any hold.
func (l Limits) Shown() Limits {
	if l.Grace == DefaultLimits().Grace {
		l.Grace = 0
	}
	if l.Network == DefaultLimits().Network {
		l.Network = 0
	}
	return l
}

// merge combines the fields of l and m one by one.
func (l Limits) merge(m Limits, pick func(a, b int64) int64) Limits {
	return Limits{
		Wall:      Millis(pick(int64(l.Wall), int64(m.Wall))),
		Grace:     Millis(pick(int64(l.Grace), int64(m.Grace))),
		CPU:       Millis(pick(int64(l.CPU), int64(m.CPU))),
		Memory:    pick(l.Memory, m.Memory),
		Processes: int(pick(int64(l.Processes), int64(m.Processes))),
		OpenFiles: int(pick(int64(l.OpenFiles), int64(m.OpenFiles))),
		FileSize:  pick(l.FileSize, m.FileSize),
		Disk:      pick(l.Disk, m.Disk),
		Inodes:    pick(l.Inodes, m.Inodes),
		Stdout:    pick(l.Stdout, m.Stdout),
		Stderr:    pick(l.Stderr, m.Stderr),
		Result:    pick(l.Result, m.Result),
		Artifacts: int(pick(int64(l.Artifacts), int64(m.Artifacts))),
		ArtBytes:  pick(l.ArtBytes, m.ArtBytes),
		Network:   pick(l.Network, m.Network),
	}
}

// Usage is what a run used. CPU and MaxRSS are 0 if they are unknown, and then null in
// JSON: every process uses some of both, so a measured figure is never 0. Unknown are
// those of built-in tools, of MCP servers and of tools whose process serves many calls.
// A call without a run (refused, pending, cached) has the zero Usage.
type Usage struct {
	Wall      Millis `json:"wall_ms"`
	CPU       Millis `json:"cpu_ms" nullable:"true"`        // since the call began, of children too
	MaxRSS    int64  `json:"max_rss_bytes" nullable:"true"` // of the largest process, or of all if a cgroup counts more
	Processes int    `json:"max_processes,omitempty"`
	Disk      int64  `json:"disk_bytes,omitempty"`
	Stdout    int64  `json:"stdout_bytes,omitempty"` // written, kept or not
	Stderr    int64  `json:"stderr_bytes,omitempty"` // written, kept or not
	// Network is how long connections through the egress proxy took, all together, and Sent and
	// Received are their bytes.
	Network  Millis `json:"network_ms,omitempty"`
	Sent     int64  `json:"sent_bytes,omitempty"`
	Received int64  `json:"received_bytes,omitempty"`
}

// Measured returns the processor time and the memory, each nil if it is unknown.
func (u Usage) Measured() (cpu *Millis, rss *int64) {
	if u.MaxRSS > 0 {
		rss = &u.MaxRSS
	}
	return measured(u.CPU), rss
}

// measured returns nil for an unknown processor time. One of less than a microsecond is
// rounded up to it, since JSON has no smaller step above 0.
func measured(cpu Millis) *Millis {
	if cpu <= 0 {
		return nil
	}
	cpu = max(cpu, Millis(time.Microsecond))
	return &cpu
}

// MarshalJSON writes null for what is unknown. Reading needs no counterpart: null, 0 (which
// older versions wrote) and an absent field all read as 0.
func (u Usage) MarshalJSON() ([]byte, error) {
	type fields Usage
	cpu, rss := u.Measured()
	return json.Marshal(struct {
		Wall   Millis  `json:"wall_ms"`
		CPU    *Millis `json:"cpu_ms"`
		MaxRSS *int64  `json:"max_rss_bytes"`
		fields         // the others
	}{u.Wall, cpu, rss, fields(u)})
}
