// Package wire carries small messages with descriptors between Haft and the
// processes of a sandbox: a length, JSON, and the descriptors beside the length.
package wire
