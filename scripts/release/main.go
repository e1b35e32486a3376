// Command release packs binaries of haft that are already built: archives, Debian packages, Python
// wheels and npm packages, and a list of their checksums. The same inputs give the same bytes.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is what is packed.
type release struct {
	version versions
	time    time.Time // of all files
	source  string    // the repository
	manuals string    // a directory of manual pages
	out     string
	made    []string
}

// A build is a binary for one platform.
type build struct {
	os, arch string
	binary   []byte
}

// run packs what the arguments say: OS/ARCH=FILE each.
func run(args []string) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	version := f.String("version", "", "the version, such as 1.2.3; another text is packed as a development version")
	epoch := f.Int64("time", 0, "the time of all files, in seconds since 1970")
	r := release{}
	f.StringVar(&r.source, "source", ".", "the repository")
	f.StringVar(&r.manuals, "manuals", "", "a directory of manual pages")
	f.StringVar(&r.out, "out", "dist", "the directory to write to")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *version == "" || f.NArg() == 0 {
		return errors.New("needs --version and binaries, OS/ARCH=FILE")
	}
	r.version, r.time = versionsOf(*version), time.Unix(*epoch, 0).UTC()
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // releases are for everybody
		return err
	}
	var builds []build
	for _, arg := range f.Args() {
		platform, file, _ := strings.Cut(arg, "=")
		goos, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("%s is not OS/ARCH=FILE", arg)
		}
		binary, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		builds = append(builds, build{goos, arch, binary})
	}
	return r.pack(builds)
}

// pack writes every package and the checksums.
func (r *release) pack(builds []build) error {
	for _, b := range builds {
		for _, pack := range []func(build) error{r.archive, r.debian, r.wheel, r.npmPlatform} {
			if err := pack(b); err != nil {
				return fmt.Errorf("%s/%s: %w", b.os, b.arch, err)
			}
		}
	}
	if err := errors.Join(r.clientWheel(), r.npmCommand(builds)); err != nil {
		return err
	}
	return r.sums()
}

// write writes one package.
func (r *release) write(name string, content []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644) //nolint:gosec // releases are for everybody
}

// sums writes the checksums in the form of sha256sum.
func (r *release) sums() error {
	slices.Sort(r.made)
	var b strings.Builder
	for _, name := range r.made {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&b, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644) //nolint:gosec // as above
}

// read returns a file of the repository.
func (r *release) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(r.source, name))
}
