package script

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Asking an interpreter takes two starts of it, which is more than a short call
// takes. So the answer is kept in a file, and trusted as long as everything that
// led to it is as it was.

// rememberFor is how long an answer is trusted at all: a shared library can be
// added without any of the files below being touched.
const rememberFor = 24 * time.Hour

// memory is one remembered answer: a line of JSON in its file. The harness and its code follow as they are, because
// they are a hundred times as long as the rest, and reading them as JSON took a thirtieth of the processor time of
// haft run.
type memory struct {
	// Stamps are those of the files that were looked at, and of the files by which
	// version managers choose.
	Stamps []string  `json:"stamps"`
	Asked  time.Time `json:"asked"`

	Runtime Runtime  `json:"runtime"`
	Harness int      `json:"harness"` // bytes
	Sum     uint32   `json:"sum"`     // of all that follows, whose end a power failure can take
	Hidden  []string `json:"hidden"`
}

// memoryForm names the form of the file.
const memoryForm = "3"

// stampsOf returns the stamps that an answer depends on: those of the candidates
// up to the one that served, and of what version managers read.
func (f *Finder) stampsOf(candidates []string) []string {
	var out []string
	for _, c := range candidates {
		out = append(out, stamp(c))
		if dir := filepath.Dir(c); filepath.Base(dir) == "shims" {
			out = append(out, stamp(filepath.Join(filepath.Dir(dir), "version")))
		}
		if venv := venvOf(c); venv != "" {
			out = append(out, stamp(filepath.Join(venv, "pyvenv.cfg")))
		}
	}
	if f.cfg.Home != "" {
		for _, n := range []string{".tool-versions", ".config/mise/config.toml", ".python-version"} {
			out = append(out, stamp(filepath.Join(f.cfg.Home, n)))
		}
	}
	return out
}

// memoryFile names the file for a question.
func (f *Finder) memoryFile(lang language, candidates []string) string {
	h := sha256.New()
	asked := []string{memoryForm, lang.name, pythonProbe, pythonHarness(), nodeProbe, nodeHarness, bashProbe,
		f.cfg.Home, f.cfg.Reader}
	for _, s := range slices.Concat(asked, openssl, candidates) {
		fmt.Fprintf(h, "%d %s", len(s), s)
	}
	return filepath.Join(f.cfg.Cache, "runtime-"+hex.EncodeToString(h.Sum(nil)[:16])+".json")
}

// recall returns what was remembered, if it still holds.
func (f *Finder) recall(lang language, candidates []string) *Runtime {
	if f.cfg.Cache == "" || len(candidates) == 0 || !private(f.cfg.Cache) {
		return nil
	}
	file, err := os.Open(f.memoryFile(lang, candidates))
	if err != nil {
		return nil
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxProbe))
	if err != nil {
		return nil
	}
	var m memory
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	if json.Unmarshal(line, &m) != nil || m.Harness < 0 || m.Harness > len(rest) || crc32.ChecksumIEEE(rest) != m.Sum ||
		len(m.Runtime.Argv) == 0 || len(m.Stamps) == 0 ||
		time.Since(m.Asked) > rememberFor || time.Until(m.Asked) > 0 {
		return nil
	}
	rt := &m.Runtime
	rt.harness, rt.code = string(rest[:m.Harness]), rest[m.Harness:]
	rt.hidden, rt.stamp = m.Hidden, stamp(rt.Argv[0])
	if !slices.Equal(append(f.stampsOf(candidates), rt.stamp), m.Stamps) {
		return nil
	}
	return rt
}

// remember keeps an answer. It is an optimisation: what fails is tried again the
// next time.
func (f *Finder) remember(lang language, candidates []string, rt *Runtime) {
	if f.cfg.Cache == "" || os.MkdirAll(f.cfg.Cache, 0o700) != nil || !private(f.cfg.Cache) {
		return
	}
	rest := slices.Concat([]byte(rt.harness), rt.code)
	b, err := json.Marshal(memory{
		Stamps: append(f.stampsOf(candidates), rt.stamp), Asked: time.Now(),
		Runtime: *rt, Harness: len(rt.harness), Sum: crc32.ChecksumIEEE(rest), Hidden: rt.hidden,
	})
	if err != nil {
		return
	}
	tmp, err := os.CreateTemp(f.cfg.Cache, "new-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(slices.Concat(b, []byte("\n"), rest))
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), f.memoryFile(lang, candidates))
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // a leftover, and harmless
	}
}

// private reports whether nobody else can put files into dir: what is read from
// there decides which program is run.
func private(dir string) bool {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
