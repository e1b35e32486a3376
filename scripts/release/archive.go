package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5" //nolint:gosec // Debian's list of files has it
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A file is one file of a package.
type file struct {
	name    string
	mode    int64
	content []byte
}

// tarball packs files, ordered by name, with the directories that they are in.
func (r *release) tarball(files []file, directories bool) ([]byte, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	z := gzip.NewWriter(&b) // without a name and a time
	t := tar.NewWriter(z)
	seen := map[string]bool{".": true, "/": true}
	var enter func(dir string) error
	enter = func(dir string) error {
		if seen[dir] || !directories {
			return nil
		}
		seen[dir] = true
		if err := enter(path.Dir(dir)); err != nil {
			return err
		}
		return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: r.time,
			Uname: "root", Gname: "root", Format: tar.FormatGNU})
	}
	for _, f := range files {
		if err := enter(path.Dir(f.name)); err != nil {
			return nil, err
		}
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: r.time,
			Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

// archive packs the binary with the documents that belong to it.
func (r *release) archive(b build) error {
	top := fmt.Sprintf("haft_%s_%s_%s", r.version.plain, b.os, b.arch)
	files := []file{{top + "/haft", 0o755, b.binary}}
	for _, name := range []string{"LICENSE", "README.md", "SECURITY.md"} {
		content, err := r.read(name)
		if err != nil {
			return err
		}
		files = append(files, file{top + "/" + name, 0o644, content})
	}
	manuals, err := r.manualPages(top+"/man/man1/", false)
	if err != nil {
		return err
	}
	content, err := r.tarball(append(files, manuals...), true)
	if err != nil {
		return err
	}
	return r.write(top+".tar.gz", content)
}

// manualPages are those of the directory, below another one.
func (r *release) manualPages(below string, compressed bool) (files []file, err error) {
	if r.manuals == "" {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(r.manuals, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		target := below + filepath.Base(name)
		if compressed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(content); err != nil {
				return nil, err
			}
			if err := z.Close(); err != nil {
				return nil, err
			}
			target, content = target+".gz", b.Bytes()
		}
		files = append(files, file{target, 0o644, content})
	}
	return files, nil
}

// debian packs a package of Debian: an ar archive of two tarballs.
func (r *release) debian(b build) error {
	if b.os != "linux" {
		return nil
	}
	unit, err := r.read("deploy/haft.service")
	if err != nil {
		return err
	}
	license, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	unit = bytes.ReplaceAll(unit, []byte("/usr/local/bin/haft"), []byte("/usr/bin/haft"))
	files := []file{
		{"./usr/bin/haft", 0o755, b.binary},
		{"./usr/lib/systemd/system/haft.service", 0o644, unit},
		{"./usr/share/doc/haft/copyright", 0o644, license},
	}
	manuals, err := r.manualPages("./usr/share/man/man1/", true)
	if err != nil {
		return err
	}
	files = append(files, manuals...)
	size, sums := 0, strings.Builder{}
	for _, f := range files {
		size += len(f.content)
		sum := md5.Sum(f.content) //nolint:gosec // Debian's list of files has it
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), strings.TrimPrefix(f.name, "./"))
	}
	data, err := r.tarball(files, true)
	if err != nil {
		return err
	}
	control, err := r.tarball([]file{{"./control", 0o644, []byte(r.control(b.arch, size))},
		{"./md5sums", 0o644, []byte(sums.String())}}, false)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range []file{{"debian-binary", 0, []byte("2.0\n")}, {"control.tar.gz", 0, control},
		{"data.tar.gz", 0, data}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, r.time.Unix(), 0, 0, "100644", len(m.content))
		out.Write(m.content)
		if len(m.content)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return r.write(fmt.Sprintf("haft_%s_%s.deb", r.version.debian, b.arch), out.Bytes())
}

// control describes the package of Debian.
func (r *release) control(arch string, size int) string {
	return fmt.Sprintf(`Package: haft
Version: %s
Architecture: %s
Maintainer: The Haft authors <haft@localhost>
Installed-Size: %d
Recommends: python3, ca-certificates
Suggests: nodejs, uidmap
Section: devel
Priority: optional
Description: runs the tools that AI agents call, in a sandbox
 Haft gives a model the schema of a Python function, a TypeScript or shell
 script or an MCP server, and runs its calls checked, confined, limited and
 recorded.
`, r.version.debian, arch, (size+1023)/1024)
}
