// Package storetest is the law for stores: what every one must do, as tests.
package storetest

import (
	"testing"

	"haft/store"
)

// Run holds a store against its contract. open returns one that is empty, and
// cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) *store.Store) {}
