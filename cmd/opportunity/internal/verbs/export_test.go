package verbs

// Agree is exported to tests, which have no terminal.
var Agree = agree
