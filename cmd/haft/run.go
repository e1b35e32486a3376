package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
	"haft/executor"
	"haft/internal/egress"
	"haft/internal/supply"
	"haft/internal/toolsource"
	"haft/sandbox"
	"haft/schema"
)

// runFlags are the flags of haft run.
type runFlags struct {
	args    string
	arg     []string
	env     []string
	files   []string
	timeout time.Duration
	memory  size
	network string
	ranges  []string
	sandbox string
	need    string
	reduced bool
	python  string
	output  string
	needs   []string
	upgrade bool
	loose   bool
	json    bool
}

// runCommand runs a tool from a file.
func runCommand(std streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE[:FUNCTION]",
		Short: "Run a tool in the sandbox",
		Long: `Run a tool in a sandbox of its own. The value goes to stdout, everything else to
stderr; with --json the whole result goes to stdout as one object.`,
		Example: `  haft run weather.py --arg city=Oslo --arg days=2
  haft run weather.py:forecast --args '{"city": "Oslo"}' --json
  haft run report.ts --args @args.json --timeout 10s --memory 256MiB
  haft run chart.py --requirements requirements.txt --arg days=7`,
		Args: func(c *cobra.Command, args []string) error { return usageArgs(cobra.ExactArgs(1)(c, args)) },
		RunE: func(c *cobra.Command, args []string) error { return runTool(c.Context(), std, args[0], f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.args, "args", "", "the arguments as `JSON`, @FILE, or - for standard input")
	fl.StringArrayVar(&f.arg, "arg", nil,
		"one argument, `NAME=VALUE`; VALUE is JSON, or text where the tool takes text")
	fl.StringArrayVar(&f.env, "env", nil, "a variable for the tool, `K=V`")
	fl.StringArrayVar(&f.files, "file", nil,
		"a `FILE` or directory to put into the tool's directory; may be given again")
	fl.StringArrayVar(&f.needs, "requirements", nil,
		"install what a `FILE` names: requirements.txt, pyproject.toml or package.json; may be given again")
	fl.BoolVar(&f.upgrade, "upgrade", false,
		"find the newest packages that fit the requirements, instead of those of the last time")
	fl.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long it may take")
	fl.Var(&f.memory, "memory", "how much memory it may use, such as 512MiB")
	fl.StringVar(&f.network, "network", "none", "none, full for the host's network, or the `HOSTS` that it may "+
		"reach, such as api.example.com,*.example.org:8443")
	fl.StringArrayVar(&f.ranges, "allow-range", nil,
		"a `CIDR` of addresses that are not public and may be reached all the same")
	fl.StringVar(&f.sandbox, "sandbox", "auto", "auto, local or process")
	allowReduced(fl, &f.reduced)
	fl.StringVar(&f.need, "isolation", "", "refuse to run with less: reduced, namespaces, kernel or machine")
	fl.StringVar(&f.python, "python", "", "the Python interpreter: a name, a path, or a virtual environment")
	fl.StringVar(&f.output, "output", "", "read what it gives back as json, text, number, boolean or list")
	fl.BoolVar(&f.loose, "descriptions-optional", false, "accept functions and parameters without documentation")
	fl.BoolVar(&f.json, "json", false, "print the whole result as one JSON object")
	return cmd
}

// runTool runs the tool of ref and prints what became of it.
func runTool(ctx context.Context, std streams, ref string, f runFlags) error {
	src, err := readSource(ref)
	if err != nil {
		return err
	}
	r, err := f.request(std)
	if err != nil {
		return err
	}
	if f.need != "" && !haft.Level(f.need).AtLeast(haft.LevelNone) {
		return usage(fmt.Errorf("--isolation is one of %v", haft.Levels()))
	}
	needs, err := neededBy(src, f.needs)
	if err != nil {
		return err
	}
	a, err := app.Open(ctx, app.Config{
		Sandbox: f.sandbox, Need: sandbox.Need{Level: haft.Level(f.need)}, Soon: src.Kind,
		Interpreters: map[haft.Kind]string{haft.KindPython: f.python}, Packages: supply.FromEnv(os.Getenv),
		AllowReduced: f.reduced,
	})
	if err != nil {
		return err
	}
	defer a.Close()
	said := newProgress(std.err)
	layers, release, err := a.Supply.Provide(ctx, needs, src.Text, f.upgrade, said.line)
	said.clear()
	if err != nil {
		return err
	}
	defer release()
	r.Layers = layers
	src.Layers = func(context.Context) ([]executor.Layer, error) { return layers, nil }
	a.Expect(ctx, src.Kind, r)
	t, err := a.Prepare(ctx, src, schema.Options{DescriptionsOptional: f.loose},
		haft.Output{Type: haft.OutputType(f.output)})
	if _, ok := errors.AsType[*schema.SourceError](err); ok {
		return finish(std, toolsource.Unusable(src, err), f.json)
	}
	if err != nil {
		return err
	}
	if r.Args, err = f.asDeclared(r.Args, t.Derived.Parameters); err != nil {
		return err
	}
	if !f.json {
		r.Stdout = func(b []byte) { fmt.Fprint(std.err, safe(std.err, string(b))) }
		r.Stderr = r.Stdout
	}
	res, err := a.Call(ctx, t, r)
	if err != nil {
		return err
	}
	return finish(std, res, f.json)
}

// finish prints a result and returns its exit code as an error.
func finish(std streams, res *haft.Result, asJSON bool) error {
	if asJSON {
		if err := printJSON(std.out, res); err != nil {
			return err
		}
	} else {
		printResult(std, res)
	}
	if code := statusExits[res.Status]; code != exitOK {
		return &exit{code: code}
	}
	return nil
}

// printResult writes a result for a person: the value to stdout, the rest to
// stderr.
func printResult(std streams, res *haft.Result) {
	w := std.err
	if res.Error != nil {
		message, trace := failureLines(res.Error)
		fmt.Fprintf(w, "%s %s\n", paint(w, red, string(res.Status)+":"), safe(w, message))
		if trace != "" {
			fmt.Fprintln(w, safe(w, trace))
		}
	} else {
		printValue(std.out, res.Value)
	}
	for _, art := range res.Artifacts {
		fmt.Fprintf(w, "artifact %s (%s, %d bytes)\n", safe(w, art.Name), art.ContentType, art.Size)
	}
	for what, n := range map[string]int64{"stdout": res.Truncated.Stdout, "stderr": res.Truncated.Stderr} {
		if n > 0 {
			fmt.Fprintf(w, "%s %d bytes of %s were left out\n", paint(w, yellow, "cut:"), n, what)
		}
	}
	for _, n := range res.Notices {
		fmt.Fprintln(w, paint(w, yellow, "notice:"), safe(w, n))
	}
	if res.Sandbox.Provider == "none" {
		return
	}
	line := fmt.Sprintf("%s in %s, isolation %s (%s)", res.Status, res.Usage.Wall.D().Round(10*time.Microsecond),
		res.Sandbox.Isolation.Level, res.Sandbox.Provider)
	word := ", without "
	for _, g := range res.Sandbox.Isolation.Missing {
		if g.Control != haft.ControlKernel { // that is another kind of sandbox
			line += word + string(g.Control)
			word = ", "
		}
	}
	fmt.Fprintln(w, paint(w, dim, line))
}

// failureLines returns what to say of a failure, and the traceback without its last
// line if that only repeats it.
func failureLines(f *haft.Failure) (message, trace string) {
	trace = strings.TrimRight(f.Traceback, "\n")
	whole := f.Type + ": " + f.Message
	if rest, ok := strings.CutSuffix(trace, whole); ok && f.Type != "" {
		return whole, strings.TrimRight(rest, "\n")
	}
	if trace == f.Message {
		trace = ""
	}
	return f.Message, trace
}

// printValue writes a value: text as text, everything else as JSON.
func printValue(w io.Writer, raw json.RawMessage) {
	var s string
	if err := json.Unmarshal(raw, &s); err == nil {
		fmt.Fprintln(w, safe(w, s))
		return
	}
	fmt.Fprintln(w, safe(w, string(raw)))
}

// request reads what the flags say about the call.
func (f runFlags) request(std streams) (app.Run, error) {
	r := app.Run{Limits: haft.Limits{Wall: haft.Millis(f.timeout), Memory: int64(f.memory)}}
	if f.timeout <= 0 {
		return r, usage(errors.New("--timeout is more than nothing"))
	}
	var err error
	if r.Args, err = f.arguments(std.in); err != nil {
		return r, err
	}
	if r.Env, err = pairs("--env", f.env); err != nil {
		return r, err
	}
	switch f.network {
	case "none":
	case "full":
		r.Network = sandbox.NetworkFull
	default:
		r.Hosts = strings.Split(f.network, ",")
		for _, h := range r.Hosts {
			if _, err := egress.ParseRule(h); err != nil {
				return r, usage(fmt.Errorf("--network is none, full or hosts: %s", haft.MessageOf(err)))
			}
		}
	}
	if r.Ranges, err = prefixes(f.ranges); err != nil {
		return r, err
	}
	if f.output != "" && !known(haft.OutputTypes(), haft.OutputType(f.output)) {
		return r, usage(fmt.Errorf("--output is one of %v", haft.OutputTypes()))
	}
	r.Files, err = readFiles(f.files)
	return r, err
}

// prefixes reads ranges of addresses.
func prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, usage(errors.New("--allow-range is a range of addresses such as 10.0.0.0/8"))
		}
		all = append(all, p)
	}
	return all, nil
}

// pairs reads flags of the form K=V.
func pairs(flag string, list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usage(fmt.Errorf("%s is K=V", flag))
		}
		m[k] = v
	}
	return m, nil
}

// readBounded reads a file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}

// known reports whether v is in list.
func known[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}
