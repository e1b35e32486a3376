package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// testCases times haft test with a file of many cases, the start of the command included.
func (b *bench) testCases(ctx context.Context) error {
	if b.cfg.Self == "" {
		return nil
	}
	cases := min(500, 20*b.cfg.Rounds)
	b.cfg.Progress(fmt.Sprintf("haft test with %d cases", cases))
	dir := filepath.Join(b.dir, "cases")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory for cases: %w", err)
	}
	var file bytes.Buffer
	file.WriteString("tool: add.py:add\ncases:\n")
	for i := range cases {
		fmt.Fprintf(&file, "- {name: n%d, args: {a: %d, b: 1}, expect: {value: %d}}\n", i, i, i+1)
	}
	for name, text := range map[string][]byte{"add.py": []byte(source), "add_test.yaml": file.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("write cases: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, b.cfg.Self, "test", "--allow-reduced="+strconv.FormatBool(b.cfg.AllowReduced))
	cmd.Dir = dir
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run haft test: %w: %.500s", err, out)
	}
	rate := float64(cases) / time.Since(began).Seconds()
	b.add(Row{What: fmt.Sprintf("haft test, %d cases of a Python tool, cases per second", cases),
		Ours: fmt.Sprintf("%.0f/s", rate), Ratio: rate, Must: 100, Aim: 200, AtLeast: true})
	return nil
}
