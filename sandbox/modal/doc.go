// Package modal runs commands in sandboxes of Modal, through Modal's own SDK. Package rented does the work; here is
// what Modal calls things and how its errors read.
//
// The life of a sandbox of Modal is set when it is made and cannot be extended. So each gets an hour more than its
// first run may take, and one that ends before a run would is not used for it. Modal itself ends a sandbox in which
// nothing runs for some minutes: if Haft is gone, so are its machines soon after.
//
// What Modal does to confine a sandbox cannot be seen from here. So the level is stated, and no control.
package modal
