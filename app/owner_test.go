package app_test

import (
	"testing"

	"haft/app"
)

// Two deployments whose hosts and directories have the same names do not end each other's rented machines.
func TestOwner_is_that_of_one_deployment(t *testing.T) {
	one := app.Owner([]byte("one"), "/data")
	if one == app.Owner([]byte("two"), "/data") || one == app.Owner([]byte("one"), "/other") {
		t.Errorf("the owner %q is that of another deployment", one)
	}
	if one != app.Owner([]byte("one"), "/data/") {
		t.Errorf("the owner %q is not that of the next process", one)
	}
	if app.Owner([]byte("one"), "") != "" {
		t.Error("without a data directory there is an owner")
	}
}
