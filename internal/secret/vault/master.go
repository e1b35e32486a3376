package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/datadir"
	"haft/internal/secret/keeper"
	"haft/sandbox"
	"haft/sandbox/process"
)

// The variables of the environment that say where the master key is. Messages name them.
const (
	FileVar    = "HAFT_MASTER_KEY_FILE"
	KeyVar     = "HAFT_MASTER_KEY"
	CommandVar = "HAFT_MASTER_KEY_COMMAND"
)

// masterTime bounds a command that prints a key: it may ask a remote service.
const masterTime = 30 * time.Second

// maxKeyFile bounds the size of a key file.
const maxKeyFile = 64 << 10

// A masterKey is the key that encrypts the keys of secrets, and its origin.
type masterKey struct {
	key []byte
	// own is the file in the data directory, which Haft may replace; "" means that the
	// operator manages the key.
	own string
}

// findMaster returns the master key: from the configuration, a file, a command, or the data
// directory, where it is made if nothing is encrypted yet. A configured key that cannot be
// read is an error: another key would not fit, and would hide the problem.
func (v *Vault) findMaster(ctx context.Context, kept bool) (masterKey, error) {
	cfg := v.cfg
	var key []byte
	var err error
	switch {
	case len(cfg.MasterKey) > 0:
		key, err = parseMaster(cfg.MasterKey)
	case cfg.MasterKeyFile != "":
		key, err = readMaster(cfg.MasterKeyFile, 0o027)
	case cfg.MasterKeyCommand != "":
		key, err = runMaster(ctx, cfg.MasterKeyCommand, cfg.Environ)
	case cfg.Data == "" && v.store.Shared():
		err = &haft.Error{Code: haft.CodeInvalid,
			Message: "secrets in a database need a master key: name its file with " + FileVar +
				", or a data directory"}
	case cfg.Data == "":
		key = newMaster() // nothing outlives the process
	default:
		return ownMaster(filepath.Join(cfg.Data, datadir.MasterFile), kept)
	}
	return masterKey{key: key}, err
}

// ownMaster returns the key of the data directory.
func ownMaster(path string, kept bool) (masterKey, error) {
	key, err := readMaster(path, 0o077)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return masterKey{key, path}, err
	}
	if kept {
		return masterKey{}, &haft.Error{Code: haft.CodeUnavailable, Err: err,
			Message: "the stored secrets are encrypted, and master.key in the data directory is missing; put it " +
				"back (with --database: copy it from another server), or name the key with " + FileVar +
				"; nothing was changed"}
	}
	err = placeMaster(path, newMaster(), os.Link) // never over one that is there
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return masterKey{}, fmt.Errorf("make the master key: %w", err)
	}
	key, err = readMaster(path, 0o077) // that of another process, if it was first
	return masterKey{key, path}, err
}

// newMaster makes a random key.
func newMaster() []byte {
	key := make([]byte, keeper.MasterSize)
	_, _ = rand.Read(key) // never fails
	return key
}

// placeMaster writes a key to a temporary file beside path, which place then moves or links
// to path.
func placeMaster(path string, key []byte, place func(from, to string) error) error {
	return datadir.PlaceFile(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), place)
}

// readMaster reads a key from a file whose mode has none of the forbidden bits.
func readMaster(path string, forbidden fs.FileMode) ([]byte, error) {
	wrong := func(why string, err error) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the file of the master key " + why, Err: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, wrong("cannot be read", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, wrong("cannot be read", err)
	case !info.Mode().IsRegular() || info.Size() > maxKeyFile:
		return nil, wrong("is not a key", nil)
	case info.Mode().Perm()&forbidden != 0:
		return nil, wrong("can be read or changed by others; change its mode to 0600, and replace the key if it may "+
			"be known", nil)
	}
	text := make([]byte, info.Size())
	if n, err := f.Read(text); err != nil || n < len(text) {
		return nil, wrong("cannot be read", err)
	}
	return parseMaster(text)
}

// parseMaster reads a key: 32 raw bytes, base64 or hexadecimal digits.
func parseMaster(text []byte) ([]byte, error) {
	if len(text) == keeper.MasterSize {
		return slices.Clone(text), nil
	}
	word := string(bytes.TrimSpace(text))
	bare := strings.TrimRight(word, "=")
	for _, decode := range []func(string) ([]byte, error){
		hex.DecodeString, base64.RawStdEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	} {
		if key, err := decode(bare); err == nil && len(key) == keeper.MasterSize {
			return key, nil
		}
	}
	return nil, &haft.Error{Code: haft.CodeInvalid,
		Message: fmt.Sprintf("a master key has %d random bytes, as they are, in base64 or hexadecimal; make one "+
			"with: openssl rand -base64 32", keeper.MasterSize)}
}

// runMaster runs a command of the operator that prints the key, for example from a key
// service. It gets env, without keys.
func runMaster(ctx context.Context, command string, env []string) ([]byte, error) {
	failed := func(why string, err error) error {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "the command for the master key (" + CommandVar + ") " + why +
				"; run it by hand to see more", Err: err}
	}
	p, err := process.Open(process.Config{})
	if err != nil {
		return nil, failed("cannot be run", err)
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return strings.HasPrefix(kv, KeyVar+"=") || strings.HasPrefix(kv, "HAFT_CREDENTIALS_") ||
			strings.Index(kv, "=") <= 0
	})
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(ctx, masterTime)
	defer cancel()
	exit, err := p.Run(ctx, sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", command}, Env: env, Stdout: &out, Network: sandbox.NetworkFull,
		Limits: haft.Limits{Wall: haft.Millis(masterTime), CPU: haft.Millis(masterTime), Memory: 4 << 30,
			OpenFiles: 1024, Stdout: 4 << 10},
	})
	switch {
	case err != nil:
		return nil, failed("cannot be run", err)
	case exit.Cause == sandbox.CauseTimeout || exit.Cause == sandbox.CauseCancelled:
		return nil, failed("took too long", nil)
	case exit.Cause != sandbox.CauseExit || exit.Code != 0:
		return nil, failed(fmt.Sprintf("failed (exit %d)", exit.Code), nil)
	case exit.DroppedStdout > 0:
		return nil, failed("printed more than a key", nil)
	}
	return parseMaster(out.Bytes())
}
