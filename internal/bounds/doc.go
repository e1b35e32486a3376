// Package bounds limits JSON from outside before it is decoded.
//
// A decoder makes a value of every pair of bytes: 2.8 million empty objects in a
// body of 8 MiB became 3.4 GB. [Check] counts values, nesting, members, items and
// characters in one pass over the bytes that are in memory already, allocates
// nothing while it does, and stops at the first bound that is passed. What it lets
// through costs a decoder and a validator a bounded amount of memory and time.
//
// It is no validator of JSON: it reads every text that encoding/json reads, and
// some that encoding/json refuses.
package bounds
