package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"haft"
	"haft/app"
	"haft/internal/supply"
	"haft/sandbox/cell"
	"haft/schema"
)

// Config says what to measure. The zero value is the whole table.
type Config struct {
	// Self is the haft binary, for the whole command and for servers; "" leaves those out. Version is its version.
	Self, Version string
	// Python is the interpreter; "" is the one that tools get.
	Python string
	// Rounds is how often each way is timed; 0 means 200.
	Rounds int
	// Slice is how long one slice of the throughput row lasts; 0 means 3 s.
	Slice time.Duration
	// Sleepers is how many calls sleep at once; 0 means 1000, -1 none.
	Sleepers int
	// Server is the command of an MCP server with a tool echo, for the row on
	// those; nil leaves it out.
	Server []string
	// Numpy adds the row on a tool with numpy, which is installed for it.
	Numpy bool
	// AllowReduced measures also where the sandbox has no namespaces.
	AllowReduced bool
	// Callers are the numbers of callers without pauses; nil means 1, 4, 16 and 64.
	Callers []int
	// Grow also measures what grows with what. Page is a page for everything, see
	// [Report.WriteDocument], and Chart a file for the chart of times; "" is none.
	Grow        bool
	Page, Chart string
	// Most bounds the sizes of [Grow]; 0 means its whole sizes.
	Most int
	// Peers is a directory with what we are compared with, as scripts/setup bench makes it; "" compares only
	// with what is installed in the system.
	Peers string
	// Packages says where packages come from.
	Packages supply.Config
	// Progress hears what is measured next.
	Progress func(string)
}

// A Report is what was measured.
type Report struct {
	Machine string
	// Version is that of Haft. Others is how many processors other programs used before anything was
	// measured: with more than a tenth of one, the figures say little.
	Version string
	Others  float64
	Loads   []Load
	Growth  []Series
	Samples []Sample
	Rows    []Row
	Notes   []string
}

// source is the job: the smallest tool that takes an argument and gives a value.
const source = `
def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: The other.
    """
    return a + b

def sleep(seconds: float) -> float:
    """Sleep.

    Args:
        seconds: How long.
    """
    import time
    time.sleep(seconds)
    return seconds
`

// bench is a measurement under way.
type bench struct {
	cfg    Config
	app    *app.App
	python string
	job    *app.Tool
	dir    string // of this run
	report *Report
}

// Measure measures.
func Measure(ctx context.Context, cfg Config) (*Report, error) {
	cfg.setDefaults()
	b := &bench{cfg: cfg, report: &Report{Machine: machine(), Version: cfg.Version}}
	a, err := app.Open(ctx, cfg.system())
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b.app = a
	rt, err := a.Runtime(ctx, haft.KindPython)
	if err != nil {
		return nil, err
	}
	b.python = rt.Argv[0]
	if b.job, err = b.tool(ctx, "add", source); err != nil {
		return nil, err
	}
	remove, err := b.workDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	if b.report.Others, err = othersBusy(ctx, min(2*time.Second, b.cfg.Slice)); err != nil {
		return nil, err
	}
	c := &contest{b}
	for _, step := range []func(context.Context) error{b.latency, b.packages, c.sustained, c.memory, b.pipeline,
		b.agents, b.http, b.sessions, b.upstream, b.network, b.redaction, b.cellMemory, b.guestKernel, b.asleep,
		b.testCases} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

// setDefaults fills in zero fields.
func (c *Config) setDefaults() {
	if c.Rounds <= 0 {
		c.Rounds = 200
	}
	if c.Slice <= 0 {
		c.Slice = 3 * time.Second
	}
	if c.Callers == nil {
		c.Callers = []int{1, 4, 16, 64}
	}
	if c.Sleepers == 0 {
		c.Sleepers = 1000
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	// The drivers run in a directory of their own.
	if peers, err := filepath.Abs(c.Peers); err == nil && c.Peers != "" {
		c.Peers = peers
	}
}

// system is what every measured system is put together of.
func (c *Config) system() app.Config {
	cfg := app.Config{Keep: true, AllowReduced: c.AllowReduced, Cells: cell.Config{Idle: 10 * time.Minute},
		Packages: c.Packages}
	if c.Python != "" {
		cfg.Interpreters = map[haft.Kind]string{haft.KindPython: c.Python}
	}
	return cfg
}

// tool prepares one function of a text.
func (b *bench) tool(ctx context.Context, function, text string) (*app.Tool, error) {
	src := app.Source{Name: function, Kind: haft.KindPython, Text: []byte(text), Function: function}
	return b.app.Prepare(ctx, src, schema.Options{}, haft.Output{})
}

// jobArgs are the arguments of the job, and jobValue is its value.
const jobArgs, jobValue = `{"a": 19, "b": 23}`, "42"

// checkJob insists on the value of the job.
func checkJob(res *haft.Result, err error) error {
	if err == nil && string(res.Value) != jobValue {
		err = fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
	}
	return err
}

// call calls the job once and insists on its value.
func (b *bench) call(ctx context.Context) (*haft.Result, error) {
	res, err := b.app.Call(ctx, b.job, app.Run{Org: "bench", Args: []byte(jobArgs)})
	return res, checkJob(res, err)
}

// bare starts the interpreter alone.
func (b *bench) bare(ctx context.Context) func() error {
	return func() error { return exec.CommandContext(ctx, b.python, "-I", "-S", "-c", "pass").Run() }
}

// add adds a row to the report.
func (b *bench) add(r Row) { b.report.Rows = append(b.report.Rows, r) }

// note adds a note to the report.
func (b *bench) note(format string, args ...any) {
	b.report.Notes = append(b.report.Notes, fmt.Sprintf(format, args...))
}

// latency times one call at a time, ours in turn with the others.
func (b *bench) latency(ctx context.Context) error {
	b.cfg.Progress("one call at a time, ours and others in turn")
	if _, err := b.call(ctx); err != nil { // boots the template
		return err
	}
	hits := 0
	ways := []Way{
		{"haft: confined call", func() error {
			res, err := b.call(ctx)
			if err == nil && res.Timeline.Cell == "hit" {
				hits++
			}
			return err
		}},
		{"python3 -I -S, bare", b.bare(ctx)},
	}
	ways = append(ways, b.others(ctx)...)
	samples, err := Interleave(b.cfg.Rounds, ways)
	if err != nil {
		return err
	}
	b.note("%d of %d confined calls found a cell ready", hits, b.cfg.Rounds+1)
	if b.cfg.Most > 0 {
		b.note("a short run: %d rounds, slices of %s, sizes up to %d", b.cfg.Rounds, b.cfg.Slice, b.cfg.Most)
	}
	// Apart, so that the cells that were dropped do not stand in anyone's way.
	b.cfg.Progress("calls that find no cell ready")
	empty, err := b.empty(ctx)
	if err != nil {
		return err
	}
	command, err := b.command(ctx)
	if err != nil {
		return err
	}
	bare := samples[1].Quantile(.5)
	b.ratio("confined Python call, fresh process, p50", samples[0].Quantile(.5), bare, 1./10, 1./20)
	b.ratio("no cell ready, p50", empty[0].Quantile(.5), empty[1].Quantile(.5), 1, .7)
	b.report.Samples = append(samples, empty[0])
	if command != nil {
		b.ratio("haft run of a file, whole command, p50", command[0].Quantile(.5), command[1].Quantile(.5), 4, 3)
		b.report.Samples = append(b.report.Samples, command[0])
	}
	return nil
}

// ratio adds a row on two times.
func (b *bench) ratio(what string, ours, theirs time.Duration, must, aim float64) {
	b.add(Row{
		What: what, Ours: label(ms(ours)), Theirs: label(ms(theirs)) + " bare python3",
		Ratio: float64(ours) / float64(theirs), Must: must, Aim: aim,
	})
}

// others are the ways that people use otherwise, where they are installed.
func (b *bench) others(ctx context.Context) []Way {
	var ways []Way
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		ways = append(ways, Way{"bubblewrap + python3", func() error {
			return exec.CommandContext(ctx, bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev",
				"/dev", "--tmpfs", "/tmp", "--die-with-parent", "--cap-drop", "ALL", b.python, "-I", "-S",
				"-c", "pass").Run()
		}})
	} else {
		b.note("bubblewrap is not installed")
	}
	return ways
}

// empty times calls that find no cell ready, in turn with bare python3.
func (b *bench) empty(ctx context.Context) ([]Sample, error) {
	out := []Sample{{Name: "haft: no cell ready"}, {Name: "bare"}}
	for range min(b.cfg.Rounds, 100) {
		b.app.Drop("bench")
		start := time.Now()
		res, err := b.call(ctx)
		if err != nil {
			return nil, err
		}
		if took := time.Since(start); res.Timeline.Cell != "hit" {
			out[0].Times = append(out[0].Times, took)
		}
		start = time.Now()
		if err := b.bare(ctx)(); err != nil {
			return nil, fmt.Errorf("start bare python3: %w", err)
		}
		out[1].Times = append(out[1].Times, time.Since(start))
	}
	if len(out[0].Times) == 0 {
		return nil, errors.New("every call found a cell, though none was left")
	}
	return out, nil
}

// command times the whole command, in turn with bare python3.
func (b *bench) command(ctx context.Context) ([]Sample, error) {
	if b.cfg.Self == "" {
		return nil, nil
	}
	b.cfg.Progress("the whole command")
	dir, err := os.MkdirTemp("", "haft-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "add.py")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		return nil, fmt.Errorf("write the job: %w", err)
	}
	return Interleave(min(b.cfg.Rounds, 50), []Way{
		{"haft run, whole command", func() error {
			return exec.CommandContext(ctx, b.cfg.Self, "run", file+":add", "--args", jobArgs, "--python", b.python,
				"--allow-reduced="+strconv.FormatBool(b.cfg.AllowReduced)).Run()
		}},
		{"bare", b.bare(ctx)},
	})
}

// machine says where this was measured.
func machine() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.GOOS)
	}
	return fmt.Sprintf("%d cores, Linux %s", runtime.NumCPU(), string(release[:len(release)-1]))
}
