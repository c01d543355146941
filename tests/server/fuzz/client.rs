//! A client with one connection that goes on from request to request, and that sends whatever it is given.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::mutate::Case;

/// The longest body of an answer that is taken, in bytes.
const MOST: usize = 64 << 20;

pub struct Client {
    port: u16,
    connection: Option<BufReader<TcpStream>>,
}

/// An answer, its chunks put together.
#[derive(Debug, Default)]
pub struct Got {
    pub status: u16,
    pub content_type: String,
    /// Whether it has an id: what is no HTTP is answered without.
    pub has_id: bool,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(port: u16) -> Self {
        Self { port, connection: None }
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// The server does not answer, or not in HTTP; a connection that it has closed between two requests is opened again.
    pub fn ask(&mut self, case: &Case) -> io::Result<Got> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(("127.0.0.1", self.port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(Duration::from_secs(120)))?;
                BufReader::new(stream)
            }
        };
        let (got, connection) = exchange(connection, case)?;
        self.connection = connection;
        Ok(got)
    }
}

/// One request and its answer; gives the connection back where it goes on.
fn exchange(mut connection: BufReader<TcpStream>, case: &Case) -> io::Result<(Got, Option<BufReader<TcpStream>>)> {
    let mut request =
        format!("{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ", case.method, case.path).into_bytes();
    request.extend_from_slice(&case.content_type);
    if case.chunk == 0 {
        request.extend_from_slice(format!("\r\nContent-Length: {}\r\n\r\n", case.body.len()).as_bytes());
        request.extend_from_slice(&case.body);
    } else {
        request.extend_from_slice(b"\r\nTransfer-Encoding: chunked\r\n\r\n");
        for chunk in case.body.chunks(case.chunk) {
            request.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            request.extend_from_slice(chunk);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
    }
    connection.get_mut().write_all(&request)?;
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let status = line(&mut connection)?;
    let number = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let mut got = Got { status: number.ok_or_else(|| wrong(&format!("no status: {status:?}")))?, ..Got::default() };
    let (mut length, mut chunked, mut goes_on) = (None, false, true);
    loop {
        let header = line(&mut connection)?.to_lowercase();
        let Some((name, value)) = header.split_once(": ") else { break };
        match name {
            "content-length" => length = value.parse::<usize>().ok(),
            "transfer-encoding" => chunked = value == "chunked",
            "connection" => goes_on = value != "close",
            "x-request-id" => got.has_id = true,
            "content-type" => got.content_type = value.to_owned(),
            _ => {}
        }
    }
    if case.method == "HEAD" {
        length = Some(0);
        chunked = false;
    }
    let mut take = |n: usize, body: &mut Vec<u8>| {
        if body.len() + n > MOST {
            return Err(wrong("the answer is too long"));
        }
        let from = body.len();
        body.resize(from + n, 0);
        connection.read_exact(&mut body[from..]).map(|()| n)
    };
    match (length, chunked) {
        (Some(n), false) => drop(take(n, &mut got.body)?),
        (_, true) => loop {
            let size = line(&mut connection)?;
            let n = usize::from_str_radix(&size, 16).map_err(|_| wrong(&format!("no size of a chunk: {size:?}")))?;
            let from = got.body.len();
            got.body.resize(from + n, 0);
            connection.read_exact(&mut got.body[from..])?;
            line(&mut connection)?;
            if n == 0 {
                break;
            }
        },
        (None, false) => return Err(wrong("an answer without an end")),
    }
    Ok((got, goes_on.then_some(connection)))
}

/// A line without its end.
fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut text = Vec::new();
    if connection.read_until(b'\n', &mut text)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}
