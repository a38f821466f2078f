package ipvs

import "context"

// Probe asks the kernel whether it has IPVS, after asking for its modules. It
// returns nil, or an error that wraps dataplane.ErrUnsupported.
func Probe(ctx context.Context) error {
	loadModules(ctx)
	k, err := openKernel()
	if err != nil {
		return err
	}
	k.close()
	return nil
}
