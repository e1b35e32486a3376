package toolfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lines of a file that a link leads to would be asked for at the package index.
func TestDirRequirements_refuses_links(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("ghp-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if set, err := DirRequirements(dir); err != nil {
		t.Fatalf("an empty directory: %v, %v", set, err)
	}
	link := filepath.Join(dir, "requirements.txt")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	_, err := DirRequirements(dir)
	if err == nil || !strings.Contains(err.Error(), "no regular file") || strings.Contains(err.Error(), "ghp-") {
		t.Errorf("a link: %v", err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(link, []byte("cowsay==6.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if set, err := DirRequirements(dir); err != nil || len(set.Pip) != 1 {
		t.Errorf("a file: %v, %v", set, err)
	}
}
