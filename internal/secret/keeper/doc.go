// Package keeper keeps secrets encrypted.
//
// A [Keeper] stores values in a [Backend] it is given. What the backend sees is
// ciphertext, bound to where it belongs:
//
//	master key ──encrypts──► keyset (data keys) ──encrypts──► each value
//	given by the app         kept in the backend              kept in the backend
//
// Values are encrypted with AES-256-GCM through Tink, with organisation, scope and
// name as associated data, so that a row that is moved to another place cannot be
// read there.
//
// A value that is stored can be replaced, used through a [Lease] or removed. It
// cannot be read back: listing gives names, times and a short fingerprint.
//
// # Rotation
//
// [Keeper.Rotate] adds a data key, which new values use; [Keeper.Rewrap] encrypts
// the old ones again, a row at a time, and can be stopped and repeated at will.
// The master key is replaced by giving the new one first and the old one after it:
// from the next Open on the keyset is encrypted under both, and once every process
// has the new one, the old one is left out and Rewrap forgets it. At no moment is
// a value unreadable to a process that has either.
//
// A master key that is lost or wrong is an error that says so. Nothing is written
// then.
package keeper
