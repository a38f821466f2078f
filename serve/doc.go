// Package serve opens TCP ports for HTTP and answers on them until a context ends.
//
// Listen opens a port in the network namespace of the calling thread; when it is
// taken the error names the program that has it, where /proc tells. Serve owns
// what it is given: when it returns, the port is closed and nobody is answered
// any more.
//
// It knows nothing of what is asked or answered: packages metrics and health hold
// the handlers, and cmd/toyproxy joins them with ports.
package serve
