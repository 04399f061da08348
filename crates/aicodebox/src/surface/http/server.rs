use std::{future::poll_fn, io, sync::Arc, task::Poll, time::Duration};

use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use super::{inflow::Inflow, socket::Socket};

/// Connections at the same time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4_096;
/// How long a client may take to send a request's head, and how long a connection may be idle.
const HEAD_LIMIT: Duration = Duration::from_secs(75);
/// How long connections may take to send what they have when the server goes down.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// Pause after the system refused a connection: usually all file descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets the connections finish their answers for a second.
///
/// Its own loop rather than `axum::serve`: that one sets no limit for slow clients and no bound on connections.
pub(crate) async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                pause(&error, &stop).await;
                continue;
            }
        };
        let (app, stop) = (app.clone(), stop.clone());
        connections.spawn(async move {
            answer(stream, app, stop).await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if timeout(DRAIN_LIMIT, connections.wait()).await.is_err() {
        debug!(connections = connections.len(), "some clients did not take their answers in time");
    }
}

async fn pause(error: &io::Error, stop: &CancellationToken) {
    // A client that was gone before we came is its own business.
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    warn!(%error, "a connection could not be accepted");
    tokio::select! {
        () = sleep(ACCEPT_PAUSE) => {}
        () = stop.cancelled() => {}
    }
}

/// One connection, to its end. When the client leaves while a handler works or an answer is made, both are dropped.
async fn answer(stream: TcpStream, app: Router, stop: CancellationToken) {
    // An answer is written in one piece and must not wait for the client's acknowledgement of the last one.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "no TCP_NODELAY");
    }
    let (socket, watch) = Socket::new(stream);
    let inflow = Inflow::default();
    let (app, followed) = (TowerToHyperService::new(app), inflow.clone());
    let service = service_fn(move |request| {
        let (answering, followed) = (app.call(followed.follow(request)), followed.clone());
        async move {
            let answer = answering.await;
            followed.discard().await;
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        // hyper's own look for a client that left came too early and too late: a request that was there to its last byte
        // never reached its handler, and one byte behind a request hid that there was nobody any more.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    let left = async {
        watch.closed().await;
        // Every change of the two goes with a step of the connection, after which this is asked again. One that waits to
        // read may have been overtaken: all of a request came, and the end, since it looked.
        let busy = || inflow.open() || watch.waited_for();
        poll_fn(|_cx| if busy() { Poll::Pending } else { Poll::Ready(()) }).await;
    };
    let mut left = std::pin::pin!(left);
    let mut stopping = false;
    let ended = loop {
        tokio::select! {
            // The connection first: what has come is for it to read, before it counts that nothing more will.
            biased;
            ended = connection.as_mut() => break ended,
            () = left.as_mut() => return,
            () = stop.cancelled(), if !stopping => {
                connection.as_mut().graceful_shutdown();
                stopping = true;
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended early");
    }
}
