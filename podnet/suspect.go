package podnet

// Suspects names the recorded networks of which something is missing or wrong as
// far as the node's side shows it: the name of the namespace, or the node's end of
// the link. It reads the same however many there are, and enters no namespace.
func (n *Node) Suspects() (map[string]bool, error) {
	f, rec, err := n.observe()
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	bridge := f.links[n.cfg.Bridge].index
	for name, net := range rec.Networks {
		l := f.links[net.HostLink]
		kind, _, err := readFile(n.Path(name))
		good := err == nil && kind == namespace && bridge != 0 && l.master == bridge &&
			l.hairpin && l.up && l.mtu == n.cfg.MTU && l.alias == hostMark(name)
		if !good {
			out[name] = true
		}
	}
	return out, nil
}
