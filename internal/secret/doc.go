// Package secret holds secret values, and removes them from output.
//
//   - A [Value] is text that no print, log or encoder shows.
//   - A [Redactor] removes values from text, JSON and streams, and on request keys,
//     tokens and personal data of known formats.
//   - [Names] recognises arguments that hold secrets by their names.
//   - [CheckEnvName] refuses environment variables that change which code runs.
//
// Package keeper stores values. It is separate so that redacting needs no
// cryptography.
//
// # What is removed
//
// A value of at least [MinValue] bytes is found wherever all of it occurs:
//
//   - as it is, in upper, lower or mixed case, and without surrounding space;
//   - with any of its characters escaped, in any mixture: \n \" \/ \\
//     \x41 \101 \u0041 with surrogate pairs, %41, + for a space, &amp; &#65;
//     &#x41;, and any of these up to [Levels] times over;
//   - in hex, of either case;
//   - in base64, of either alphabet, with or without padding, also as a part of
//     what was encoded; a character at either end that shares its bits with a
//     neighbour may stay;
//   - in each of these also with line breaks, as base64 and xxd write them.
//
// A value that itself contains \, % or & is found if it was escaped two or three times
// in the same way, and in a few mixtures; in other mixtures it may be missed.
//
// Characters that encodings exchange count as equal: space, + and -, and / and _. Text
// that differs from a value only in these or in case is removed too.
//
// # What cannot be removed
//
// A program that has a value can always write it in another way: reversed, encrypted,
// compressed, with a character between any two, or in part. A redactor catches
// accidents and what models do with output. It does not stop a hostile tool: for that,
// do not give the tool the value, but a [Placeholder] and a [Binding].
package secret
