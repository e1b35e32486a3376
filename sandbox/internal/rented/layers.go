package rented

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"haft/sandbox"
)

// maxLayer bounds a directory of packages that is sent to a machine.
const maxLayer = 1 << 30

// layersOf lists the directories that a machine is given: those that are at another place inside. What is at its own
// place belongs to the system, which a machine has itself.
func layersOf(spec sandbox.Spec) []string {
	list := []string{}
	for _, m := range spec.Mounts {
		if m.Host != m.Inside {
			list = append(list, m.Inside)
		}
	}
	slices.Sort(list)
	return list
}

// sendLayers uploads packages that a machine does not have yet.
func (p *Provider) sendLayers(ctx context.Context, m *machine, spec sandbox.Spec) error {
	for _, mount := range spec.Mounts {
		if mount.Host == mount.Inside || m.layers[mount.Inside] {
			continue
		}
		r, w := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := pack(w, mount.Host)
			w.CloseWithError(err)
			packed <- err
		}()
		err := m.Upload(ctx, mount.Inside+".tar.gz", r)
		_ = r.CloseWithError(ErrGone) // pack ends, if the server has not read all
		if failed := <-packed; failed != nil && (err == nil || !errors.Is(failed, ErrGone)) {
			err = failed // what Upload says then is only that it could not go on
		}
		if err != nil {
			return err
		}
		m.layers[mount.Inside] = true
	}
	return nil
}

// pack writes a directory as an archive.
func pack(w io.Writer, dir string) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return errnoOf(err)
	}
	defer root.Close()
	left := int64(maxLayer)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil // links of programs are not imported
		}
		head := &tar.Header{Name: path.Clean(name), Mode: int64(info.Mode().Perm()) | 0o700, Typeflag: tar.TypeDir}
		if info.Mode().IsRegular() {
			head.Typeflag, head.Size = tar.TypeReg, info.Size()
			if left -= info.Size(); left < 0 {
				return invalid(fmt.Sprintf("the packages are larger than %d bytes, the most for a rented sandbox",
					maxLayer))
			}
		}
		if err := archive.WriteHeader(head); err != nil || head.Typeflag == tar.TypeDir {
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close() // only read
		_, err = io.Copy(archive, f)
		return err
	})
	return errors.Join(err, archive.Close(), zip.Close())
}

// errnoOf returns an error without a path of the host.
func errnoOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if err == nil {
		return errors.New("it is not a directory")
	}
	return err
}
