//go:build !linux

package hostpath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Open opens a path that leads through no symbolic link.
func Open(name string) (*Path, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, missing(err)
	}
	if real != name {
		return nil, denied(isLink)
	}
	f, err := os.Open(real)
	if err != nil {
		return nil, missing(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at a path of the host: %w", err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		_ = f.Close() // only looked at
		return nil, denied(isOdd)
	}
	return &Path{File: f, Real: real, Dir: info.IsDir()}, nil
}

// Read opens a regular file for reading.
func (p *Path) Read() (*os.File, error) { return os.Open(p.Real) }

// Follow opens a path that may lead through symbolic links. If it does, the directory
// of its name is said to have one.
func Follow(name string) (*Path, []string, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, nil, missing(err)
	}
	var links []string
	if real != name {
		links = append(links, filepath.Dir(name))
	}
	p, err := Open(real)
	return p, links, err
}

// Check reports that p is, contains or lies in what the guard keeps.
func (g Guard) Check(p *Path) error {
	for _, name := range append(append([]string(nil), g.Dirs...), g.Files...) {
		if name == "" {
			continue
		}
		own, err := filepath.Abs(name)
		if err != nil {
			return fmt.Errorf("find a directory of Haft: %w", err)
		}
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		// File systems there may ignore case.
		a, b := strings.ToLower(own)+"/", strings.ToLower(p.Real)+"/"
		if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
			return denied(isOwn)
		}
	}
	return nil
}
