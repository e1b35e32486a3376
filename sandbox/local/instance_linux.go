package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/cgroup"
)

// maxInstances is how many processes may use the local sandbox at a time.
const maxInstances = 256

// rootDir is where all instances of root agree on their numbers, whatever their
// own directories are: a number stands for a range of user ids of the host.
const rootDir = "/run/haft"

// An instance is this process among those that use the local sandbox: its number, its
// directories and its cgroups. Its lock file lists them, so that later instances can
// remove them.
type instance struct {
	log     *slog.Logger
	mountOn string   // an empty directory
	scratch string   // for the files of runs in the reduced mode
	lock    *os.File // holds the number
	number  int
	tree    *cgroup.Tree
}

// open finds a directory and a number, and removes what dead instances left.
func (in *instance) open(dir string) error {
	root := os.Geteuid() == 0
	switch {
	case dir != "":
	case root:
		dir = rootDir
	default:
		var err error
		if dir, err = userDir(os.TempDir()); err != nil {
			return err
		}
	}
	if err := ownDir(dir); err != nil {
		return err
	}
	if in.mountOn = filepath.Join(dir, "root"); root {
		// Other user ids must be able to reach it. The sandbox then covers /tmp, but trees
		// below /tmp are handed over as descriptors, so they can still be mounted.
		in.mountOn = "/tmp"
	} else if err := os.Mkdir(in.mountOn, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make directory to mount on: %w", err)
	}
	locks := dir
	if root && ownDir(rootDir) == nil {
		locks = rootDir
	}
	if err := in.takeNumber(locks); err != nil {
		return err
	}
	in.scratch = filepath.Join(dir, fmt.Sprintf("%d.runs", in.number))
	return in.sweep(locks)
}

// userDir returns the directory of an ordinary user: haft-UID, or haft-UID-RANDOM if
// another user has taken that name. Later instances find the latter again, so that they
// can remove what dead instances left.
func userDir(tmp string) (string, error) {
	dir := filepath.Join(tmp, "haft-"+strconv.Itoa(os.Geteuid()))
	err := ownDir(dir)
	if err == nil {
		return dir, nil
	}
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, os.ErrExist) && !errors.Is(err, unix.ENOTDIR) &&
		!errors.Is(err, os.ErrPermission) {
		return "", err
	}
	others, err := filepath.Glob(dir + "-*")
	if err != nil {
		return "", fmt.Errorf("find sandbox directory: %w", err)
	}
	for _, other := range others {
		if isOwn(other) == nil {
			return other, nil
		}
	}
	if dir, err = os.MkdirTemp(tmp, filepath.Base(dir)+"-"); err != nil {
		return "", fmt.Errorf("make sandbox directory: %w", err)
	}
	return dir, nil
}

// takeNumber locks the first number that is free.
func (in *instance) takeNumber(locks string) error {
	for n := range maxInstances {
		f, err := lockFile(locks, n, os.O_CREATE)
		if err != nil {
			return fmt.Errorf("lock instance: %w", err)
		}
		if f != nil {
			in.lock, in.number = f, n
			return nil
		}
	}
	return fmt.Errorf("all %d instances of %s are taken", maxInstances, locks)
}

// lockFile locks the file of a number. It returns nil if another process holds the lock,
// or if there is no such file.
func lockFile(dir string, n, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.lock", n)), os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// lockNumber returns the number of the lock file of that name.
func lockNumber(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".lock")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && n < maxInstances && digits == strconv.Itoa(n)
}

// ownDir makes a directory, or makes sure that it is ours: another user may have made it
// before, in a directory for temporary files.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make sandbox directory: %w", err)
	}
	return isOwn(dir)
}

// isOwn makes sure that no other user can write to a directory. If the directory above it
// is sticky or ours, no other user can replace it afterwards either.
func isOwn(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("look at sandbox directory: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("sandbox directory: %w", &os.PathError{Op: "trust", Path: dir, Err: unix.EPERM})
	}
	return nil
}

// sweep removes what dead instances left: the lock file of each lists its cgroups and
// files, and an instance is dead if its lock is free. Processes and mounts end with their
// namespaces, and those with Haft. Then sweep writes the list of this instance.
func (in *instance) sweep(locks string) error {
	entries, err := os.ReadDir(locks)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	for _, e := range entries {
		n, ok := lockNumber(e.Name())
		if !ok {
			continue
		}
		f := in.lock
		if n != in.number {
			if f, err = lockFile(locks, n, 0); err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
			if f == nil {
				continue
			}
		}
		err := sweepOne(f)
		if n != in.number {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			in.log.Warn("a dead instance left something that cannot be removed", "err", err)
		}
	}
	// The name is random: an instance with another directory of locks may have the same number.
	in.tree = cgroup.Open("haft-" + strings.ToLower(rand.Text()[:12]))
	list := append(in.tree.Dirs(), in.scratch)
	if _, err := in.lock.WriteAt([]byte(strings.Join(list, "\n")), 0); err != nil {
		return fmt.Errorf("write instance lock: %w", err)
	}
	return nil
}

// close releases what the instance holds. No run is left.
func (in *instance) close() error {
	err := errors.Join(in.tree.Close(), removeTree(in.scratch))
	if e := in.lock.Truncate(0); err == nil {
		err = e
	}
	if e := in.lock.Close(); err == nil {
		err = e
	}
	return err
}

// sweepOne removes what a lock file lists, and empties it.
func sweepOne(f *os.File) error {
	b := make([]byte, 64<<10)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n == 0 {
		return nil
	}
	list := strings.Split(string(b[:n]), "\n")
	err = cgroup.Sweep(list)
	for _, name := range list {
		if strings.HasSuffix(name, ".runs") && filepath.IsAbs(name) {
			err = errors.Join(err, removeTree(name))
		}
	}
	return errors.Join(err, f.Truncate(0))
}
