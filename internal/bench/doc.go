// Package bench measures Haft beside what people use otherwise, in one run on one
// machine: figures of different machines or different hours say nothing.
//
// Times are compared in [Interleave]d rounds, throughput in alternating slices,
// and what is promised is a ratio: [Row]. [Measure] makes a [Report].
package bench
