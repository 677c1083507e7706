//! The root of an application beneath a prefix, asked for without its slash: `/app` is `/app/`, as nginx has it for a
//! `location` that ends with a slash. The application sees the same path for both, and cannot say so itself.

use super::Request;
use crate::failure::Failure;
use crate::mounted::{lacks_slash, redirect_to_folder};
use crate::snapshot::CompiledRoute;
use tidegate_transport::Sock;
use tidegate_wire::head::Method;

impl<S: Sock> Request<'_, '_, S> {
    /// True: the request was sent on to the path with its slash. Only pages have links; what else is asked for there
    /// goes to the application.
    pub(super) async fn redirect_to_mount(&mut self, route: &CompiledRoute) -> Result<bool, Failure> {
        let exchange = &*self.exchange;
        let asks_for_page = matches!(exchange.head.method, Method::Get | Method::Head)
            && exchange.hop.upgrade.is_none()
            && !exchange.is_extended_connect();
        if !asks_for_page || !lacks_slash(exchange, route.steps_of(exchange.record.arm)) {
            return Ok(false);
        }
        let (exchange, around) = self.parts();
        redirect_to_folder(exchange, around).await?;
        Ok(true)
    }
}
