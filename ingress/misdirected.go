package ingress

// Misdirected says whether a request came over a connection that was made for another
// listener than the one it has found: HTTP/2 clients use a connection for every host that its
// certificate names. Listeners are apart, so it is to be sent over a connection of its own
// (421). A client that asked for no server name may ask for any host.
func (r *Router) Misdirected(port uint16, serverName string, found Found) bool {
	if serverName == "" || found.Listener == nil {
		return false
	}
	var made *Listener
	r.ports[port][found.Listener.Group].byHost.covering(NormalizeHost(serverName), func(l *listener) bool {
		made = l.Listener
		return false
	})
	return made != found.Listener
}
