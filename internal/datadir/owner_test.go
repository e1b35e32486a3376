package datadir_test

import (
	"testing"

	"haft/internal/datadir"
)

// Two deployments whose hosts and directories have the same names do not end each other's rented machines.
func TestOwner(t *testing.T) {
	one := datadir.Owner("/data", []byte("one"))
	if one == datadir.Owner("/data", []byte("two")) || one == datadir.Owner("/other", []byte("one")) {
		t.Errorf("the owner %q is that of another deployment", one)
	}
	if one != datadir.Owner("/data/", []byte("one")) {
		t.Errorf("the owner %q is not that of the next process", one)
	}
	if datadir.Owner("", []byte("one")) != "" {
		t.Error("without a data directory there is an owner")
	}
}
